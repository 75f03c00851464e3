package pack

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/podsim"
	"github.com/weirproject/weir/internal/wire"
)

func encode(tb testing.TB, enc wire.Encoding, pod *corev1.Pod) []byte {
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

// simPods makes the bytes of n of simulated pods spread over a large cluster.
func simPods(tb testing.TB, enc wire.Encoding, n int) [][]byte {
	tb.Helper()
	sim := podsim.New(50_000, 1)
	pods := make([][]byte, n)
	for i := range pods {
		pod := sim.Pod(i * (50_000 / n))
		pod.ResourceVersion = strconv.Itoa(1000 + i)
		pods[i] = encode(tb, enc, pod)
	}
	return pods
}

// withoutUID cuts an object's uid out, as the store does before it packs.
func withoutUID(tb testing.TB, enc wire.Encoding, raw []byte) []byte {
	tb.Helper()
	var m wire.Meta
	if err := wire.ReadMeta(enc, raw, &m); err != nil {
		tb.Fatal(err)
	}
	return bytes.Replace(bytes.Clone(raw), bytes.Clone(m.UID), nil, 1)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// noise is text that does not pack.
func noise(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rnd.IntN(90))
	}
	return string(b)
}
