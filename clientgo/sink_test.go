package clientgo

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/codec"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// TestTransformOnRelist checks that a relist transforms only objects whose bytes differ from those
// received before, whatever the transform makes of them, even if the server has gone back.
func TestTransformOnRelist(t *testing.T) {
	for name, also := range map[string]func(*corev1.Pod){
		"packed":        func(*corev1.Pod) {},
		"with the kind": func(p *corev1.Pod) { p.APIVersion, p.Kind = "v1", "Pod" },
		"as it is":      func(p *corev1.Pod) { p.CreationTimestamp.Time = time.Unix(1, 5) }, // no encoding has nanoseconds
	} {
		t.Run(name, func(t *testing.T) {
			values := codec.Of(&corev1.Pod{})
			s := store.New(store.Config{Decode: values.Decode})
			defer s.Close()
			calls := 0
			in := &sink{store: s, codec: values, transform: func(obj any) (any, error) {
				calls++
				p := obj.(*corev1.Pod)
				p.Spec.NodeName += "+"
				also(p)
				return p, nil
			}}
			in.Writer = s.Writer(store.Scope{})
			list := func(rebase bool, node string, wantCalls int) {
				t.Helper()
				calls = 0
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u", ResourceVersion: "5"}, Spec: corev1.PodSpec{NodeName: node}}
				raw, err := p.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				var m wire.Meta
				if err := wire.ReadMeta(wire.Protobuf, raw, &m); err != nil {
					t.Fatal(err)
				}
				in.BeginReplace(rebase)
				if err := in.Take(0, &m, raw, nil); err != nil {
					t.Fatal(err)
				}
				in.EndReplace("9")
				o, ok := s.Get("d/a")
				if !ok {
					t.Fatal("the pod is gone")
				}
				held, err := o.Decoded()
				if err != nil {
					t.Fatal(err)
				}
				if got := held.(*corev1.Pod).Spec.NodeName; got != node+"+" || calls != wantCalls {
					t.Errorf("%s: held %q after %d calls, want %d", node, got, calls, wantCalls)
				}
			}
			list(false, "n1", 1)
			list(false, "n1", 0)
			list(false, "n2", 1)
			list(true, "n2", 0)
			list(true, "n3", 1)
		})
	}
}

// TestListedEarlier checks that a list, and initial events in its place, are the state whatever
// versions are held: those of a server that was restored from a backup are earlier.
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
			if err := in.Take(event, &m, nil, p); err != nil {
				t.Fatal(err)
			}
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

// TestListedValueAfterRestore checks that a list of a server that has gone back leaves a value
// whole that cannot be encoded and has no resourceVersion.
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
		if err := in.Take(0, &m, nil, p); err != nil {
			t.Fatal(err)
		}
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
