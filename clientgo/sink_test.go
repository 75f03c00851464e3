package clientgo

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestTransformOnRelist checks that a relist calls the transform only for objects whose bytes
// differ from the bytes received before. The transforms change various fields, including the uid.
// The test also restores the server from a backup. For the comparison, the informer encodes objects
// that List returned.
func TestTransformOnRelist(t *testing.T) {
	for name, test := range map[string]struct {
		returned bool
		change   func(*corev1.Pod)
	}{
		"packed":        {false, func(*corev1.Pod) {}},
		"with the kind": {false, func(p *corev1.Pod) { p.APIVersion, p.Kind = "v1", "Pod" }},
		// Nanoseconds cannot be encoded, so the informer stores the Go value.
		"as it is":                {false, func(p *corev1.Pod) { p.CreationTimestamp.Time = time.Unix(1, 5) }},
		"without a uid":           {false, func(p *corev1.Pod) { p.UID = "" }},
		"returned":                {true, func(*corev1.Pod) {}},
		"returned, as it is":      {true, func(p *corev1.Pod) { p.CreationTimestamp.Time = time.Unix(1, 5) }},
		"returned, without a uid": {true, func(p *corev1.Pod) { p.UID = "" }},
		"returned, another uid":   {true, func(p *corev1.Pod) { p.UID = "of-" + p.UID }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRelistedPod(t, test.returned, test.change)
			l.list(t, false, "n1", 1)
			l.list(t, false, "n1", 0)
			l.list(t, false, "n2", 1)
			l.list(t, true, "n2", 0)
			l.list(t, true, "n3", 1)
		})
	}
}

// relistedPod is a sink with a transform. Each of its lists contains one pod.
type relistedPod struct {
	*sink
	returned bool // the lists contain objects, not bytes
	calls    int  // number of calls of the transform
}

func newRelistedPod(t *testing.T, returned bool, change func(*corev1.Pod)) *relistedPod {
	values := codec.Of(&corev1.Pod{})
	l := &relistedPod{sink: &sink{store: store.New(store.Config{Decode: values.Decode}), codec: values}, returned: returned}
	t.Cleanup(l.store.Close)
	l.Writer = l.store.Writer(store.Scope{})
	l.transform = func(obj any) (any, error) {
		l.calls++
		p := obj.(*corev1.Pod)
		p.Spec.NodeName += "+"
		change(p)
		return p, nil
	}
	return l
}

// list passes a list to the sink. The list contains the pod with the given node name, always at the
// same version. It checks the number of calls of the transform, and that the store contains the
// transform's result.
func (l *relistedPod) list(t *testing.T, rebase bool, node string, wantCalls int) {
	t.Helper()
	l.calls = 0
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: "a", UID: "12345678-1234-4234-8234-123456789abc", ResourceVersion: "5",
	}}
	m, raw := received(t, p)
	var object any
	if l.returned {
		raw, object = nil, p
	}
	l.BeginReplace(rebase)
	check.NoError(t, l.Take(0, m, raw, object))
	l.EndReplace("9")
	o, ok := l.store.Get("d/a")
	if !ok {
		t.Fatal("the pod is gone")
	}
	held, err := o.Decoded()
	check.NoError(t, err)
	if got := held.(*corev1.Pod).Spec.NodeName; got != node+"+" || l.calls != wantCalls || o.ResourceVersion() != "5" {
		t.Errorf("%s: held %q at version %s after %d calls, want %d", node, got, o.ResourceVersion(), l.calls, wantCalls)
	}
}

// TestOpaqueDeletion checks that a DELETED event deletes an object even if a transform removes the
// uid and the resourceVersions are not numbers.
func TestOpaqueDeletion(t *testing.T) {
	l := newRelistedPod(t, false, func(p *corev1.Pod) { p.UID = "" })
	for _, event := range []wire.EventType{wire.Added, wire.Deleted} {
		m, raw := received(t, podAt("opaque", "a", "1"))
		check.NoError(t, l.Take(event, m, raw, nil))
		l.Flush()
		if _, held := l.store.Get("d/a"); held != (event == wire.Added) {
			t.Errorf("held %v after the event of type %v", held, event)
		}
	}
}

// TestListedEarlier lists lower resourceVersions than the stored ones, as after a restore of the
// server from a backup. The list, or the initial events, must replace the stored objects.
func TestListedEarlier(t *testing.T) {
	for _, event := range []wire.EventType{0, wire.Added} {
		values := codec.Of(&corev1.Pod{})
		s := store.New(store.Config{Decode: values.Decode})
		defer s.Close()
		in := &sink{store: s, codec: values, Writer: s.Writer(store.Scope{})}
		list := func(version, end string) {
			t.Helper()
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u", ResourceVersion: version}}
			in.BeginReplace(false)
			m := wire.Meta{Namespace: []byte("d"), Name: []byte("a"), UID: []byte("u"), ResourceVersion: []byte(version)}
			check.NoError(t, in.Take(event, &m, nil, p))
			in.EndReplace(end)
			o, ok := s.Get("d/a")
			if !ok {
				t.Fatalf("%v %s is gone", event, version)
			}
			if held, err := o.Decoded(); err != nil || held.(*corev1.Pod).ResourceVersion != version {
				t.Errorf("%v %s: held %v, %v", event, version, held, err)
			}
		}
		list("994", "994")
		list("991", "995")
	}
}

// TestListedValueAfterRestore stores a Go value that cannot be encoded and has no resourceVersion.
// After a restore of the server, a list with an equal object must keep the stored value.
func TestListedValueAfterRestore(t *testing.T) {
	values := codec.Of(&corev1.Pod{})
	s := store.New(store.Config{Decode: values.Decode})
	defer s.Close()
	in := &sink{store: s, codec: values, Writer: s.Writer(store.Scope{})}
	for _, rebase := range []bool{false, true} {
		p := pod("a", "1")
		p.CreationTimestamp.Time = time.Unix(1, 5)
		m := wire.Meta{Namespace: []byte(p.Namespace), Name: []byte(p.Name), UID: []byte(p.UID)}
		in.BeginReplace(rebase)
		check.NoError(t, in.Take(0, &m, nil, p))
		in.EndReplace("9")
		o, ok := s.Get("d/a")
		if !ok {
			t.Fatal("it is gone")
		}
		if held, err := o.Decoded(); err != nil || !codec.Equal(held, p) {
			t.Errorf("holds %v, %v", held, err)
		}
	}
}
