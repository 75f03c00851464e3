package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/sim/api"
	"github.com/weirproject/weir/internal/sim/etcd"
)

// Draw makes the world of a seed.
func Draw(seed uint64) *World {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), w: &World{Seed: seed}}
	d.world()
	return d.w
}

// maxKeys is how many keys a world has at most.
const maxKeys = 8

// drawer draws one world. Each feature is there or not for the whole world, so that worlds are unlike each other.
type drawer struct {
	*rand.Rand
	w    *World
	span time.Duration // in which things happen
}

func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// between draws a duration on a logarithmic scale, so that short and long ones are as likely.
func (d *drawer) between(low, high time.Duration) time.Duration {
	t := float64(low)
	for t*2 <= float64(high) && d.chance(70) {
		t *= 2
	}
	return time.Duration(t * (1 + d.Float64())).Truncate(time.Microsecond)
}

func (d *drawer) world() {
	w := d.w
	w.Builtin = d.chance(40)
	w.Base = pick[int64](d, 0, 7, 96, 990)
	d.span = d.between(2*time.Second, 4*time.Minute)
	d.keys()
	d.servers()
	d.clients()
	d.writes()
	slices.SortStableFunc(w.Steps, func(a, b Step) int { return int(a.At - b.At) })
}

func (d *drawer) keys() {
	namespaces := []string{"n1", "n2", "n3"}[:1+d.IntN(3)]
	for i := range 1 + d.IntN(maxKeys) {
		d.w.Keys = append(d.w.Keys, etcd.Key{Namespace: pick(d, namespaces...), Name: string(rune('a' + i))})
	}
}

func (d *drawer) servers() {
	s := api.Spec{}
	if d.chance(50) {
		s.Order = d.IntN(24)
	}
	d.w.Servers = append(d.w.Servers, s)
}

func (d *drawer) clients() {
	c := ClientSpec{Runner: Native, Mode: "auto", Watch: d.between(20*time.Second, 5*time.Minute)}
	for range 1 + d.IntN(2) {
		c.Handlers = append(c.Handlers, HandlerSpec{})
	}
	d.w.Clients = append(d.w.Clients, c)
}

// writes draws the writes before the start and those in the span, in bursts and alone.
func (d *drawer) writes() {
	w := d.w
	for i := range w.Keys {
		if d.chance(60) {
			w.Before = append(w.Before, Step{Op: Put, Key: i, Label: d.label(), Node: d.node()})
		}
	}
	var at time.Duration
	burst := 0
	for range d.IntN(40) {
		if burst--; burst <= 0 {
			burst = d.IntN(8)
			at = time.Duration(d.Int64N(int64(d.span)))
		}
		s := d.write()
		s.At = at
		w.Steps = append(w.Steps, s)
	}
}

func (d *drawer) write() Step {
	s := Step{Op: Put, Key: d.IntN(len(d.w.Keys)), Label: d.label(), Node: d.node()}
	switch n := d.IntN(100); {
	case n < 20:
		s.Op = Delete
	case n < 30:
		s.Op = Recreate
	case n < 37:
		s.Op, s.N = Bump, 1+d.Int64N(5)
	}
	return s
}

func (d *drawer) label() string { return pick(d, "x", "y", "z", "") }

func (d *drawer) node() string { return pick(d, "node-1", "node-2") }
