package informers

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestDiff(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a := make([]byte, random.IntN(60))
		for i := range a {
			a[i] = byte(random.IntN(256))
		}
		b := bytes.Clone(a)
		for range random.IntN(6) {
			if len(b) > 0 {
				b[random.IntN(len(b))] = byte(random.IntN(256))
			}
		}
		delta, got := diff(a, b), bytes.Clone(a)
		patch(got, delta)
		if !bytes.Equal(got, b) {
			t.Fatalf("%x with %x is %x, want %x", a, delta, got, b)
		}
		if bytes.Equal(a, b) && len(delta) > 0 {
			t.Fatalf("nothing differs: %x", delta)
		}
	}
}

// 500 pods of 25 workloads are held in less than a third of what they are when they are written.
func TestSiblingsAreHeldOnce(t *testing.T) {
	for name, enc := range encodings {
		p := makeStubPods(t, enc, 500, 500)
		held, bases := 0, map[*byte]bool{}
		for i := range p.models {
			m := &p.models[i]
			for _, one := range []*part{&m.meta, &m.spec, &m.status[0], &m.status[1]} {
				held += len(one.delta)
				if !bases[&one.bytes[0]] {
					bases[&one.bytes[0]] = true
					held += len(one.bytes)
				}
			}
		}
		if held > int(p.listSize)/3 {
			t.Errorf("%s: %d bytes are held for a list of %d", name, held, p.listSize)
		}
	}
}
