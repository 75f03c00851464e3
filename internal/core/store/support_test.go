package store

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks measure without the checks
		checking = checking || !testenv.Race // under the race detector the checks take minutes
	}
	goleak.VerifyTestMain(m)
}

func decodePod(raw []byte, _ *codec.Version) (any, error) {
	pod := new(corev1.Pod)
	return pod, pod.Unmarshal(raw)
}

func decodeConfig() Config { return Config{Encoding: wire.Protobuf, Decode: decodePod} }

func newStore(tb testing.TB, cfg Config) *Store {
	tb.Helper()
	s := New(cfg)
	tb.Cleanup(s.Close)
	return s
}

func smallPod(ns, name string, uid, rv int, labels map[string]string, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, ResourceVersion: strconv.Itoa(rv), Labels: labels,
			UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", uid)),
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/" + name}}},
	}
}

// put reads an object's metadata and puts it.
func put(tb testing.TB, w *Writer, raw []byte) {
	tb.Helper()
	var m wire.Meta
	check.NoError(tb, wire.ReadMeta(w.s.Encoding(), raw, &m))
	check.NoError(tb, w.Put(&m, raw))
}

func putPod(tb testing.TB, w *Writer, pod *corev1.Pod) {
	tb.Helper()
	put(tb, w, podsim.Encode(w.s.Encoding().String(), pod))
}

func deletePod(tb testing.TB, w *Writer, pod *corev1.Pod) {
	tb.Helper()
	raw := podsim.Encode(w.s.Encoding().String(), pod)
	var m wire.Meta
	check.NoError(tb, wire.ReadMeta(w.s.Encoding(), raw, &m))
	check.NoError(tb, w.Delete(&m, raw))
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// drain returns all changes that a cursor has left.
func drain(c *Cursor) (changes []Change) {
	buf := make([]Change, 16)
	for {
		n := c.Next(buf)
		if n == 0 {
			return changes
		}
		changes = append(changes, buf[:n]...)
	}
}

// annotation returns the value of an annotation. ok is false if the object does not have it.
func annotation(o *Object, key string) (value string, ok bool) {
	o.readMeta(func(m *wire.Meta) {
		var v []byte
		v, ok = m.Annotation(key)
		value = string(v)
	})
	return value, ok
}
