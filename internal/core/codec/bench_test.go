package codec

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// BenchmarkEncode encodes pods that a program's transform function could return. The pods have no
// kind, as in a server's response, or they have a kind that the transform function sets.
func BenchmarkEncode(b *testing.B) {
	sim := podsim.New(100, 1)
	for name, stated := range map[string]metav1.TypeMeta{"bare": {}, "kind": {APIVersion: "v1", Kind: "Pod"}} {
		b.Run(name, func(b *testing.B) {
			c := Of(&corev1.Pod{})
			var pods []*corev1.Pod
			for i := range sim.Len() {
				pods = append(pods, sim.Pod(i))
				pods[i].TypeMeta = stated
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := c.Encode(pods[i%len(pods)]); !ok {
					b.Fatal("not encoded")
				}
			}
		})
	}
}

// BenchmarkDecode decodes similar and dissimilar pods, in list order and in random order. It
// measures Decode of one version, DecodeShared, Decode of two versions of each pod, and the
// generated code.
func BenchmarkDecode(b *testing.B) {
	for kind, sim := range map[string]*podsim.Pods{"alike": podsim.New(100, 1), "unlike": podsim.NewUnlike(20000, 1)} {
		rnd := rand.New(rand.NewPCG(1, 2))
		raws, later := make([][]byte, sim.Len()), make([][]byte, sim.Len())
		for i := range raws {
			p := sim.Pod(i)
			raws[i] = pod(*p)
			podsim.Touch(p, rnd)
			p.ResourceVersion += "1"
			later[i] = pod(*p)
		}
		c := New(reflect.TypeFor[*corev1.Pod]())
		for _, order := range []string{"list", "random"} {
			at := rnd.Perm(len(raws))
			if order == "list" {
				slices.Sort(at)
			}
			for name, decode := range map[string]func(i int) error{
				"weir":      func(i int) error { return second(c.Decode(raws[i], nil)) },
				"shared":    func(i int) error { return second(c.DecodeShared(raws[i], nil)) },
				"versions":  func(i int) error { _, _, err := c.versions(raws[i], later[i]); return err },
				"generated": func(i int) error { return new(corev1.Pod).Unmarshal(raws[i]) },
			} {
				b.Run(kind+"/"+order+"/"+name, func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						check.NoError(b, decode(at[i%len(at)]))
					}
				})
			}
		}
	}
}

func second(_ any, err error) error { return err }
