package pack

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// BenchmarkSiblings packs pods of similar and dissimilar workloads, in two orders. In the order of
// a LIST, consecutive pods use the same base. In random order, the base is unpacked each time.
func BenchmarkSiblings(b *testing.B) {
	for _, of := range []struct {
		what string
		sim  *podsim.Pods
	}{{"alike", podsim.New(50_000, 1)}, {"unlike", podsim.NewUnlike(50_000, 1)}} {
		s := newGroups(b, of.sim, 100)
		for _, order := range []struct {
			what string
			step int
		}{{"in turn", 1}, {"all over", 37}} {
			at := func(i int) *member { return &s.objects[i*order.step%len(s.objects)] }
			b.Run(of.what+"/pack "+order.what, func(b *testing.B) {
				var dst []byte
				for i := 0; b.Loop(); i++ {
					dst, _ = s.packer.PackSibling(dst[:0], at(i).raw, at(i).name)
				}
				b.ReportMetric(float64(s.bytes)/float64(len(s.objects)), "packed-B")
			})
			b.Run(of.what+"/unpack "+order.what, func(b *testing.B) {
				var dst []byte
				for i := 0; b.Loop(); i++ {
					var err error
					if dst, err = at(i).dict.Unpack(dst[:0], at(i).packed, len(at(i).raw)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(of.what+"/pack without", func(b *testing.B) {
			var dst []byte
			for i := 0; b.Loop(); i++ {
				dst, _ = s.packer.Pack(dst[:0], s.objects[i%len(s.objects)].raw)
			}
		})
	}
}

// BenchmarkSiblingsNew packs pods as a first LIST does.
func BenchmarkSiblingsNew(b *testing.B) {
	s := newGroups(b, podsim.New(50_000, 1), 400)
	for _, how := range []string{"siblings", "without"} {
		b.Run(how, func(b *testing.B) {
			for b.Loop() {
				n := &groups{packer: New(), objects: make([]member, 0, len(s.objects))}
				for i := range s.objects {
					if m := &s.objects[i]; how == "siblings" {
						n.add(m.name, m.raw)
					} else {
						packed, d := n.packer.Pack(nil, m.raw)
						n.objects = append(n.objects, member{m.name, held{m.raw, string(packed), d}})
						n.packer.Observe(m.raw)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.objects)), "ns/object")
		})
	}
}
