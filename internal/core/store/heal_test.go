package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// healer is a server of pods, and a writer that puts the pods of its responses.
type healer struct {
	t    *testing.T
	s    *Store
	w    *Writer
	pods []*corev1.Pod
	rv   int
}

func newHealer(t *testing.T, enc wire.Encoding) *healer {
	s := newStore(t, Config{Encoding: enc})
	h := &healer{t: t, s: s, w: s.Writer(Scope{}), rv: 100}
	for i := range 30 {
		h.pods = append(h.pods, smallPod("a", fmt.Sprintf("p%02d", i), i, 50+i, map[string]string{"app": "web"}, "n"))
	}
	return h
}

// list makes the writer read a LIST of all pods. It returns how many stored objects the LIST
// changed.
func (h *healer) list() int {
	h.t.Helper()
	before := h.s.Revision()
	enc, size := h.s.Encoding(), int64(0)
	var items [][]byte
	for _, pod := range h.pods {
		item := podsim.Encode(enc.String(), pod)
		items = append(items, item)
		size += wire.ListItemSize(len(item))
	}
	var body bytes.Buffer
	meta := wire.ListMeta{ResourceVersion: strconv.Itoa(h.rv), RemainingItemCount: -1}
	lw := wire.NewListWriter(&body, enc, wire.TypeMeta{APIVersion: "v1", Kind: "PodList"}, meta, size)
	for _, item := range items {
		if err := lw.WriteItem(item); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := lw.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.w.BeginReplace(false)
	r := wire.NewListReader(&body, enc, wire.Limits{})
	for {
		item, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			h.t.Fatal(err)
		}
		put(h.t, h.w, item)
	}
	h.w.EndReplace(r.Meta().ResourceVersion)
	return int(h.s.Revision() - before)
}

// watch makes the writer read a WATCH with an event for each pod. It returns how many stored
// objects the WATCH changed.
func (h *healer) watch() int {
	h.t.Helper()
	before := h.s.Revision()
	var body []byte
	for _, pod := range h.pods {
		object := podsim.Encode(h.s.Encoding().String(), pod)
		body = wire.AppendEvent(body, h.s.Encoding(), wire.Modified, wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}, object)
	}
	r := wire.NewWatchReader(bytes.NewReader(body), h.s.Encoding(), wire.Limits{})
	for {
		event, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			h.t.Fatal(err)
		}
		put(h.t, h.w, event.Object)
	}
	h.w.Flush()
	return int(h.s.Revision() - before)
}

// newer gives each pod its next version.
func (h *healer) newer() {
	for _, pod := range h.pods {
		h.rv++
		pod.ResourceVersion = strconv.Itoa(h.rv)
	}
}

// TestRelistBelievesBytes checks that a relist replaces a stored object if the listed bytes differ,
// even with the same resourceVersion. An object from a watch must count as equal to the same object
// in a list. In JSON they differ, because only the event states the object's kind.
func TestRelistBelievesBytes(t *testing.T) {
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		t.Run(enc.String(), func(t *testing.T) {
			h := newHealer(t, enc)
			if n := h.list(); n != len(h.pods) {
				t.Fatalf("%d objects", n)
			}
			h.newer()
			if n := h.watch(); n != len(h.pods) {
				t.Errorf("%d changes by a watch", n)
			}
			if n := h.list(); n != 0 {
				t.Errorf("a list of what a watch has told changes %d objects", n)
			}
			if n := h.watch(); n != 0 {
				t.Errorf("a watch that repeats the version in the table changes %d objects", n)
			}
			c := h.s.Cursor()
			drain(c)
			for i, pod := range h.pods {
				pod.Annotations = map[string]string{"converted": "yes"}
				if i < 10 {
					pod.Annotations = nil
				}
			}
			if n := h.list(); n != len(h.pods)-10 {
				t.Errorf("%d changes by a list in which %d have other bytes", n, len(h.pods)-10)
			}
			for _, ch := range drain(c) {
				v, _ := annotation(ch.New, "converted")
				if ch.Old == nil || ch.Old.ResourceVersion() != ch.New.ResourceVersion() || v != "yes" {
					t.Errorf("%s: %v → %v, converted %q", ch.Key(), ch.Old, ch.New, v)
				}
			}
			if n := h.list(); n != 0 {
				t.Errorf("%d changes by the same list", n)
			}
			h.pods[0].Annotations = map[string]string{"converted": "later"}
			if n := h.watch(); n != 1 {
				t.Errorf("%d changes by a watch in which one has other bytes", n)
			}
		})
	}
}

// TestOtherBytesWhileLagging checks a cursor that is behind while only the bytes of an object
// change. The cursor must return a change, but none if the object has its old bytes again.
func TestOtherBytesWhileLagging(t *testing.T) {
	s := newStore(t, Config{LogBytes: 1})
	w := s.Writer(Scope{})
	one, two := []byte(`{"metadata":{"name":"a"},"spec":1}`), []byte(`{"metadata":{"name":"a"},"spec":2}`)
	for _, name := range []string{"a", "b"} {
		if err := w.Put(metaOf(name, "5"), one); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	c := s.Cursor()
	drain(c)
	for _, name := range []string{"a", "b", "b"} {
		raw := two
		if held, _ := s.Get("d/b"); name == "b" && held.Revision() > 2 {
			raw = one
		}
		if err := w.Put(metaOf(name, "5"), raw); err != nil {
			t.Fatal(err)
		}
		w.Flush()
	}
	changes := drain(c)
	if len(changes) != 1 || changes[0].Key() != "d/a" {
		t.Errorf("%d changes: %v", len(changes), changes)
	}
}

// TestRelistOfOtherOrder checks that a JSON object whose members are in another order, or have
// other whitespace between them, causes no change.
func TestRelistOfOtherOrder(t *testing.T) {
	s := newStore(t, Config{})
	w := s.Writer(Scope{})
	for i, text := range []string{
		`{"metadata":{"name":"a"},"spec":{"x":1},"status":{}}`,
		`{"status":{},"kind":"Pod","spec":{"x":1},"metadata":{"name":"a"},"apiVersion":"v1"}`,
		`{ "spec" : {"x":1} , "status" : {}, "metadata":{"name":"a"} }`,
		`{"metadata":{"name":"a"},"spec":{"x":2},"status":{}}`,
	} {
		w.BeginReplace(false)
		if err := w.Put(metaOf("a", "5"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		w.EndReplace("9")
		if want := uint64(1 + i/3); s.Revision() != want {
			t.Errorf("%s: revision %d, want %d", text, s.Revision(), want)
		}
	}
}

// TestRelistOfTransformedObjects checks objects whose stored bytes or value differ from the
// received bytes. The store must compare the received bytes.
func TestRelistOfTransformedObjects(t *testing.T) {
	s := newStore(t, Config{})
	w := s.Writer(Scope{})
	for i, tc := range []struct {
		received  string
		unchanged bool
	}{{`{"a":1}`, false}, {`{"a":1}`, true}, {`{"a":2}`, false}, {`{"a":2}`, true}} {
		w.BeginReplace(false)
		for _, name := range []string{"packed", "value"} {
			m := metaOf(name, "5")
			unchanged, err := w.Unchanged(m, []byte(tc.received))
			if err != nil || unchanged != tc.unchanged {
				t.Fatalf("%d: %s: known %v, %v", i, name, unchanged, err)
			}
			switch {
			case unchanged:
			case name == "packed":
				err = w.PutAs(m, []byte(tc.received), []byte(`{}`), nil)
			default:
				err = w.PutValue(m, []byte(tc.received), &i)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		w.EndReplace("9")
		if s.Len() != 2 {
			t.Fatalf("%d: a version that is known was not seen", i)
		}
	}
	if s.Revision() != 4 {
		t.Errorf("revision %d", s.Revision())
	}
	// If the received bytes are unknown, only the resourceVersions are compared.
	if err := w.PutValue(metaOf("value", "5"), nil, &s); err != nil || w.Flush() != 0 {
		t.Errorf("the same version is put: %v", err)
	}
}
