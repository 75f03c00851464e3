package servers

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// marshaler is an object that can be encoded as protobuf.
type marshaler interface{ Marshal() ([]byte, error) }

func event(t *testing.T, kind wire.EventType, o marshaler) []byte {
	t.Helper()
	raw, err := o.Marshal()
	check.NoError(t, err)
	tm := wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if kind == wire.Error {
		tm.Kind = "Status"
	}
	return wire.AppendEvent(nil, wire.Protobuf, kind, tm, raw)
}

func pod(name string, rv int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: strconv.Itoa(rv)}}
}

func bookmark(rv int, end bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(rv)}}
	if end {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return p
}

func follow(events ...[]byte) *follower {
	return newFollower(wire.NewWatchReader(bytes.NewReader(bytes.Join(events, nil)), wire.Protobuf, wire.Limits{}))
}

func TestFollowerCountsMissedChanges(t *testing.T) {
	keys := []string{"shop/a", "shop/b", "shop/c"}
	begin := func() [][]byte {
		return [][]byte{
			event(t, wire.Added, pod("a", 30)), event(t, wire.Added, pod("b", 20)), event(t, wire.Bookmark, bookmark(30, false)),
			event(t, wire.Bookmark, bookmark(30, true)),
		}
	}
	for name, c := range map[string]struct {
		events  [][]byte
		written []uint64
		gaps    int
		back    int
		closed  bool
	}{
		"nothing was written":     {written: []uint64{0, 0, 0}},
		"the state has it all":    {written: []uint64{30, 0, 0}},
		"all comes":               {events: [][]byte{event(t, wire.Modified, pod("a", 31)), event(t, wire.Added, pod("c", 32))}, written: []uint64{31, 0, 32}},
		"something newer comes":   {events: [][]byte{event(t, wire.Modified, pod("a", 35))}, written: []uint64{31, 0, 0}},
		"a deletion counts":       {events: [][]byte{event(t, wire.Deleted, pod("b", 33))}, written: []uint64{0, 33, 0}},
		"the last write is lost":  {events: [][]byte{event(t, wire.Modified, pod("a", 31))}, written: []uint64{34, 0, 0}, gaps: 1, closed: true},
		"one object never comes":  {events: [][]byte{event(t, wire.Modified, pod("a", 31))}, written: []uint64{31, 0, 9}, gaps: 1, closed: true},
		"an object goes back":     {events: [][]byte{event(t, wire.Modified, pod("a", 29)), event(t, wire.Modified, pod("a", 31))}, written: []uint64{31, 0, 0}, back: 1},
		"events are out of order": {events: [][]byte{event(t, wire.Modified, pod("a", 40)), event(t, wire.Modified, pod("b", 39))}, written: []uint64{40, 39, 0}, back: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := follow(append(begin(), c.events...)...)
			check.NoError(t, f.follow(t.Context(), newLimiter(0), func() bool { return f.initial }))
			if f.events != 4 {
				t.Errorf("the initial state ended behind %d events", f.events)
			}
			gaps, err := f.catchUp(t.Context(), keys, c.written)
			if gaps != c.gaps || f.back != c.back || errors.Is(err, errClosed) != c.closed {
				t.Errorf("%d gaps, %d back, %v", gaps, f.back, err)
			}
		})
	}
}

func TestFollowerEnds(t *testing.T) {
	never := func() bool { return false }
	gone := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old"}
	for name, c := range map[string]struct {
		events [][]byte
		closed bool
	}{
		"the body ends":        {events: [][]byte{event(t, wire.Added, pod("a", 3))}, closed: true},
		"the server says why":  {events: [][]byte{event(t, wire.Error, gone)}, closed: true},
		"the body breaks off":  {events: [][]byte{event(t, wire.Added, pod("a", 3))[:9]}, closed: true},
		"no resourceVersion":   {events: [][]byte{event(t, wire.Added, &corev1.Pod{})}},
		"no resource versions": {events: [][]byte{event(t, wire.Added, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "new"}})}},
	} {
		err := follow(c.events...).follow(t.Context(), newLimiter(0), never)
		if err == nil || errors.Is(err, errClosed) != c.closed {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := follow().follow(ctx, newLimiter(0), never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDrainCounts(t *testing.T) {
	var kinds []string
	f := follow(event(t, wire.Added, pod("a", 3)), event(t, wire.Bookmark, bookmark(4, false)), event(t, wire.Deleted, pod("a", 5)))
	err := drain(f.watch, func(e wire.EventType) { kinds = append(kinds, e.String()) })
	if diff := cmp.Diff([]string{"ADDED", "BOOKMARK", "DELETED"}, kinds); diff != "" || !errors.Is(err, errClosed) {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestStored checks that the bytes that are written to etcd decode to the pod with one more
// annotation.
func TestStored(t *testing.T) {
	was := pod("a", 3)
	was.Annotations = map[string]string{"kept": "yes", changed: "1"}
	was.Spec.NodeName = "n"
	raw, err := was.Marshal()
	check.NoError(t, err)
	tm, object, err := wire.CutObject(wire.Protobuf, stored(raw, 2))
	if err != nil || tm != (wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}) {
		t.Fatalf("%v, %v", tm, err)
	}
	var got corev1.Pod
	check.NoError(t, got.Unmarshal(object))
	want := was.DeepCopy()
	want.Annotations[changed] = "2"
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Error(diff)
	}
}
