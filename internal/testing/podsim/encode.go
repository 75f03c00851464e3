package podsim

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Encode returns the bytes in which a server sends a pod. encoding is "json" or "protobuf", as
// wire.Encoding.String returns it; this package cannot import wire, because the tests of wire
// import this package. Encode panics if the pod cannot be encoded.
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

// Spread returns n encoded pods. They are distributed evenly over a simulated cluster of 50,000
// pods. Each has a different resourceVersion.
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
