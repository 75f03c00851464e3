package clientgo

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// TestUndecodable checks that a handler receives each version that can be decoded, with its last
// received version as old, and that a version that cannot be decoded is reported once, not at each
// resync.
func TestUndecodable(t *testing.T) {
	var reports int
	silent(t, func(context.Context, error, string, ...any) { reports++ })
	for _, share := range []bool{false, true} {
		inf := NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, nil, Options{ShareDecoded: share}).(*informer)
		t.Cleanup(inf.store.Close)
		w := inf.store.Writer(store.Scope{})
		version := func(rv string, good bool) *store.Object {
			t.Helper()
			raw := marshal(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "u", ResourceVersion: rv}})
			var m wire.Meta
			err := wire.ReadMeta(wire.Protobuf, raw, &m)
			if !good {
				raw = append(raw, "\x2a\x01"...) // a truncated field
			}
			if err == nil {
				err = w.Put(&m, raw)
			}
			w.Flush()
			o, ok := inf.store.Get("d/a")
			if err != nil || !ok || o.ResourceVersion() != rv {
				t.Fatal(ok, err)
			}
			return o
		}
		a, b, c, d, e := version("1", true), version("2", false), version("3", false), version("4", true), version("5", false)
		update := func(was, is *store.Object) store.Change {
			return store.Change{Old: was, New: is}
		}
		add := func(o *store.Object) store.Change { return store.Change{New: o} }
		resync := func(o *store.Object) store.Change { return store.Change{Old: o, New: o} }
		remove := func(o *store.Object) store.Change {
			return store.Change{Old: o, ResourceVersion: 9}
		}
		for name, test := range map[string]struct {
			events  []store.Change
			calls   []string
			reports int
		}{
			"good behind bad":      {[]store.Change{add(a), update(a, b), update(b, c), update(c, d)}, []string{"add d/a@1 v=", "update d/a@1 v= -> d/a@4 v="}, 2},
			"gone behind bad":      {[]store.Change{add(a), update(a, b), remove(b)}, []string{"add d/a@1 v=", "delete tombstone d/a d/a@1 v="}, 1},
			"never good":           {[]store.Change{add(b), update(b, c), remove(c)}, nil, 2},
			"bad first":            {[]store.Change{add(b), resync(b), update(b, d), resync(d), remove(d)}, []string{"add d/a@4 v=", "update d/a@4 v= -> d/a@4 v=", "delete d/a@9 v="}, 1},
			"resynced while bad":   {[]store.Change{add(a), update(a, b), resync(b), resync(b), update(b, d)}, []string{"add d/a@1 v=", "update d/a@1 v= -> d/a@4 v="}, 1},
			"bad, good, bad, gone": {[]store.Change{add(b), update(b, d), update(d, e), remove(e)}, []string{"add d/a@4 v=", "delete tombstone d/a d/a@4 v="}, 2},
		} {
			calls := newRecorder()
			reports = 0
			r := &registration{informer: inf, handler: calls, callbacks: callbacksOf(calls)}
			r.delivery = delivery.New(inf.store, r.handle, delivery.Options{})
			for _, e := range test.events {
				r.handle(t.Context(), e)
			}
			r.delivery.Close()
			if got := calls.all(); !slices.Equal(got, test.calls) || reports != test.reports || len(r.undecodable) > 0 && strings.HasSuffix(name, "gone") {
				t.Errorf("share %v, %s: told %q with %d reports, want %q with %d", share, name, got, reports, test.calls, test.reports)
			}
		}
	}
}
