package podsim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Words creates names and text. They look like configuration or, if Noise is true, are random
// characters that do not compress. The same random numbers give the same words. A Words is not safe
// for concurrent use.
type Words struct {
	Rand  *rand.Rand
	Noise bool
}

var (
	syllables = []string{
		"ar", "ban", "bel", "cor", "dan", "del", "dor", "el", "fen", "gar", "gim", "hal", "hen", "in", "jor", "kal", "kes", "lan",
		"lem", "lor", "mar", "mel", "min", "nor", "ol", "pan", "per", "quil", "ran", "rel", "ros", "sal", "sen", "sol", "tan", "tel",
		"tor", "ul", "van", "ver", "vor", "wen", "wil", "yar", "zan", "zer",
	}
	nouns = []string{
		"address", "backend", "batch", "bucket", "cache", "cluster", "deadline", "endpoint", "factor", "feature", "interval", "key",
		"level", "limit", "mode", "path", "pool", "port", "prefix", "quota", "rate", "region", "retries", "schema", "size", "source",
		"target", "threshold", "timeout", "token", "topic", "url", "version", "window", "workers", "zone",
	}
)

const (
	alphanumeric = "abcdefghijklmnopqrstuvwxyz0123456789"
	firstPrint   = ' ' + 1
	lastPrint    = '~'
)

// Chance returns true with a probability of percent/100.
func (w *Words) Chance(percent int) bool { return w.Rand.IntN(100) < percent }

// Between returns a random number from least to most, including both. It panics if most is less
// than least.
func (w *Words) Between(least, most int) int { return least + w.Rand.IntN(most-least+1) }

// Pick returns a random one of the values. It panics if there are none.
func Pick[T any](w *Words, from ...T) T { return from[w.Rand.IntN(len(from))] }

// Word returns a word of lower-case letters. With Noise, it consists of random lower-case letters
// and digits, and starts with a letter.
func (w *Words) Word() string {
	if !w.Noise {
		var b strings.Builder
		for range w.Between(2, 3) {
			b.WriteString(Pick(w, syllables...))
		}
		return b.String()
	}
	b := make([]byte, w.Between(12, 20))
	for i := range b {
		b[i] = alphanumeric[w.Rand.IntN(len(alphanumeric))]
	}
	b[0] = alphanumeric[w.Rand.IntN(26)]
	return string(b)
}

// Name returns a DNS label of at most 45 characters.
func (w *Words) Name() string {
	if w.Noise {
		return w.Word()
	}
	if w.Chance(40) {
		return w.Word() + "-" + Pick(w, nouns...)
	}
	return w.Word() + "-" + w.Word()
}

// Variable returns the name of an environment variable.
func (w *Words) Variable() string {
	if w.Noise {
		return strings.ToUpper(w.Word())
	}
	return strings.ToUpper(w.Word() + "_" + Pick(w, nouns...))
}

// Value returns a typical value of an environment variable, argument or attribute, such as a
// number, a path or an address. With Noise it returns random characters.
func (w *Words) Value() string {
	if w.Noise {
		return w.Text(w.Between(110, 330))
	}
	switch w.Rand.IntN(6) {
	case 0:
		return fmt.Sprint(w.Rand.IntN(100_000))
	case 1:
		return Pick(w, "true", "false")
	case 2:
		return fmt.Sprintf("%d%s", w.Between(1, 900), Pick(w, "ms", "s", "m", "Mi", "Gi"))
	case 3:
		return fmt.Sprintf("https://%s.%s.svc:%d/%s", w.Name(), w.Word(), w.Between(1024, 9999), w.Word())
	case 4:
		return "/" + w.Word() + "/" + w.Word() + "/" + w.Word()
	}
	return w.Text(w.Between(4, 24))
}

// Text returns n bytes of words or, with Noise, of random printable characters. It removes spaces
// at the end, so the result may be shorter.
func (w *Words) Text(n int) string {
	b := make([]byte, 0, n+16)
	for len(b) < n {
		switch {
		case w.Noise:
			// A percent sign would be taken for a placeholder by the stub server of the benchmarks.
			if c := byte(firstPrint + w.Rand.IntN(lastPrint-firstPrint+1)); c != '%' {
				b = append(b, c)
			}
		case w.Chance(25):
			b = append(b, Pick(w, nouns...)+Pick(w, " ", "=", ": ", ", ")...)
		default:
			b = append(b, w.Word()+" "...)
		}
	}
	return strings.TrimRight(string(b[:n]), " ")
}

// Several calls the function one until it has received N different strings, and returns these
// strings. N is a random number from least to most. Several never returns if the function has fewer
// than N different results.
func (w *Words) Several(least, most int, one func() string) []string {
	out := make([]string, 0, most)
	seen := map[string]bool{}
	for n := w.Between(least, most); len(out) < n; {
		if s := one(); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
