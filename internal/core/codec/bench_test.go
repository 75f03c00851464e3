package codec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// benchKinds are the kinds that the benchmarks' pods state: none, as servers send them, or one that
// a transform sets.
var benchKinds = map[string]metav1.TypeMeta{"bare": {}, "kind": {APIVersion: "v1", Kind: "Pod"}}

// BenchmarkEncode encodes pods like a transform's results.
func BenchmarkEncode(b *testing.B) {
	sim := podsim.New(100, 1)
	for name, stated := range benchKinds {
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

// BenchmarkDecode decodes the output of BenchmarkEncode.
func BenchmarkDecode(b *testing.B) {
	sim := podsim.New(100, 1)
	for name, stated := range benchKinds {
		b.Run(name, func(b *testing.B) {
			c := Of(&corev1.Pod{})
			var raws [][]byte
			for i := range sim.Len() {
				pod := sim.Pod(i)
				pod.TypeMeta = stated
				raw, ok := c.Encode(pod)
				if !ok {
					b.Fatal("not encoded")
				}
				raws = append(raws, raw)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.Decode(raws[i%len(raws)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
