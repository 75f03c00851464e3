package codec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// BenchmarkEncode encodes pods that a program's transform function could return. They have no kind,
// as in a server's response, or a kind that the transform function sets.
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
