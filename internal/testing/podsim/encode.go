package podsim

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Encode returns a pod's bytes as a server sends them. The encoding is "json" or "protobuf", as
// wire.Encoding.String returns it: the tests of package wire import this package, so it cannot
// import wire. Encode panics if the pod cannot be encoded.
func Encode(encoding string, pod *corev1.Pod) []byte {
	var raw []byte
	var err error
	switch encoding {
	case "json":
		raw, err = json.Marshal(pod)
	case "protobuf":
		raw, err = pod.Marshal()
	default:
		err = fmt.Errorf("unknown encoding %q", encoding)
	}
	if err != nil {
		panic(fmt.Errorf("encode pod %s: %w", pod.Name, err))
	}
	return raw
}

// Spread returns the bytes of n pods that are spread over a large simulated cluster, each with its
// own resourceVersion.
func Spread(encoding string, n int) [][]byte {
	const all = 50_000
	sim := New(all, 1)
	pods := make([][]byte, n)
	for i := range pods {
		pod := sim.Pod(i * (all / n))
		pod.ResourceVersion = strconv.Itoa(1000 + i)
		pods[i] = Encode(encoding, pod)
	}
	return pods
}
