package proxyfuzz

import "math/rand/v2"

// dice draws what a request or a round of permissions is made of.
type dice struct{ *rand.Rand }

// newDice returns the dice of one request or round. They depend on nothing but the two numbers, so
// each can be replayed alone.
func newDice(seed, of uint64) dice { return dice{rand.New(rand.NewPCG(seed, of))} }

// percent returns true in n of 100 cases.
func (d dice) percent(n int) bool { return d.IntN(100) < n }

// pick returns one of several.
func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// some returns up to most of several, at least one, each once.
func some[T any](d dice, most int, from ...T) []T {
	var out []T
	for _, i := range d.Perm(len(from))[:1+d.IntN(min(most, len(from)))] {
		out = append(out, from[i])
	}
	return out
}
