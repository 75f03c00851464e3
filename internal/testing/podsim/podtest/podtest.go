// Package podtest encodes simulated pods for tests.
package podtest

import (
	"encoding/json"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// Encode returns a pod's bytes as a server sends them.
func Encode(tb testing.TB, enc wire.Encoding, pod *corev1.Pod) []byte {
	tb.Helper()
	var raw []byte
	var err error
	if enc == wire.Protobuf {
		raw, err = pod.Marshal()
	} else {
		raw, err = json.Marshal(pod)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// Spread returns the bytes of n pods that are spread over a large simulated cluster, each with its
// own resourceVersion.
func Spread(tb testing.TB, enc wire.Encoding, n int) [][]byte {
	tb.Helper()
	const all = 50_000
	sim := podsim.New(all, 1)
	pods := make([][]byte, n)
	for i := range pods {
		pod := sim.Pod(i * (all / n))
		pod.ResourceVersion = strconv.Itoa(1000 + i)
		pods[i] = Encode(tb, enc, pod)
	}
	return pods
}
