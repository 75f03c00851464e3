package codec

import (
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// BenchmarkUnlike decodes pods of workloads with different shapes, in list order and in random
// order, and two versions of each pod.
func BenchmarkUnlike(b *testing.B) {
	sim := podsim.NewUnlike(20000, 1)
	raws := make([][]byte, sim.Len())
	size := 0
	for i := range raws {
		raws[i] = pod(*sim.Pod(i))
		size += len(raws[i])
	}
	b.Logf("%d bytes a pod", size/len(raws))
	rnd := rand.New(rand.NewPCG(1, 2))
	order := rnd.Perm(len(raws))
	later := make([][]byte, len(raws))
	for i := range later {
		p := sim.Pod(i)
		podsim.Touch(p, rnd)
		later[i] = pod(*p)
	}
	c := New(reflect.TypeFor[*corev1.Pod]())
	for i := range 40000 {
		if _, err := c.Decode(raws[order[i%len(order)]]); err != nil {
			b.Fatal(err)
		}
	}
	for name, at := range map[string]func(i int) int{"list": func(i int) int { return i }, "all over": func(i int) int { return order[i] }} {
		b.Run(name+"/weir", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.Decode(raws[at(i%len(raws))]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/versions", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				i := at(i % len(raws))
				if _, _, err := c.DecodeUpdate(nil, raws[i], later[i]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/generated", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				check.NoError(b, new(corev1.Pod).Unmarshal(raws[at(i%len(raws))]))
			}
		})
	}
}
