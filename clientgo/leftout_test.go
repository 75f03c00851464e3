package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// refusing is a transform that returns an error for pods whose label v is "bad".
func refusing(obj any) (any, error) {
	if obj.(*corev1.Pod).Labels["v"] == "bad" {
		return nil, errBadPod
	}
	return obj, nil
}

var errBadPod = errors.New("a bad pod")

// TestTransformError checks what happens if a transform fails for a version of an object, with
// client-go's informer and with Weir's. In an event, the informer keeps the previous version. A
// list fails: the informer does not sync or, in a relist, keeps what it has stored, and the watch
// error handler receives the transform's error. The informer lists again until the transform
// succeeds.
func TestTransformError(t *testing.T) {
	silent(t)
	for maker, make := range bothConstructors {
		t.Run(maker, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { transformError(t, make) }) })
	}
}

func transformError(t *testing.T, make constructor) {
	s := newRecordedInformer(t, make)
	var fails atomic.Bool
	var failed atomic.Int32
	check.NoError(t, s.informer.SetTransform(func(obj any) (any, error) {
		if fails.Load() {
			return refusing(obj)
		}
		return obj, nil
	}))
	check.NoError(t, s.informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if strings.Contains(err.Error(), errBadPod.Error()) {
			failed.Add(1)
		}
	}))
	s.source.Add(pod("a", "bad"))
	s.source.Add(pod("b", "1"))
	fails.Store(true)
	s.stop = run(t, s.informer)
	time.Sleep(time.Minute)
	if s.informer.HasSynced() || failed.Load() < 2 {
		t.Errorf("synced: %t, and %d errors reported", s.informer.HasSynced(), failed.Load())
	}
	fails.Store(false)
	synced(t, s.informer, s.registration)
	s.source.watches.wait(t)
	fails.Store(true)
	s.source.Modify(pod("b", "bad"))
	s.source.Add(pod("c", "1"))
	s.calls.wait(t, "add d/c@4 v=1")
	failed.Store(0)
	s.source.DeleteDropWatch(pod("c", "1"))
	s.source.ResetWatch()
	time.Sleep(time.Minute)
	check.Equal(t, shown(s.informer.GetStore().List()), "d/a@1 v=bad\nd/b@2 v=1\nd/c@4 v=1", "stored while lists fail")
	if failed.Load() == 0 {
		t.Error("no error of a relist was reported")
	}
	fails.Store(false)
	s.calls.wait(t, "update d/b@2 v=1 -> d/b@3 v=bad")
	s.calls.wait(t, "delete tombstone d/c d/c@4 v=1")
	check.Equal(t, shown(s.informer.GetStore().List()), "d/a@1 v=bad\nd/b@3 v=bad", "stored at the end")
}

// TestRefusedOnRelist checks that a relist keeps the stored version of an object if the listed
// version cannot be decoded or transformed. If the listed version has another uid than the stored
// version, the relist must delete the stored version.
func TestRefusedOnRelist(t *testing.T) {
	for name, test := range map[string]struct {
		pin      bool
		returned bool   // the list contains objects, not bytes
		cut      bool   // the bytes cannot be decoded
		restored bool   // the server was restored from a backup
		version  string // the listed version; the stored version is 3
		uid      types.UID
		held     types.UID // if not "", the uid that the transform sets
		wantGone bool
	}{
		"bytes":            {version: "4", uid: "uid-1"},
		"an object":        {version: "4", uid: "uid-1", returned: true},
		"not decoded":      {version: "4", uid: "uid-1", cut: true},
		"not pinned":       {version: "4", uid: "uid-1", cut: true, pin: true},
		"after a restore":  {version: "2", uid: "uid-1", restored: true},
		"another uid":      {version: "4", uid: "uid-1", held: "uid-2"},
		"of another":       {version: "4", uid: "uid-2", wantGone: true},
		"of another, held": {version: "4", uid: "uid-2", held: "uid-2", wantGone: true},
		"an object, other": {version: "4", uid: "uid-2", returned: true, wantGone: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChangingStore(t, Options{PinDecoded: test.pin})
			sink := c.inf.sink
			if sink.Writer = c.writer; !test.pin {
				sink.transform = func(obj any) (any, error) {
					p := obj.(*corev1.Pod)
					p.UID = cmp.Or(test.held, p.UID)
					return refusing(p)
				}
			}
			list := func(p *corev1.Pod, version string, rebase, cut bool) error {
				t.Helper()
				p.ResourceVersion = version
				m, raw := received(t, p)
				if cut {
					raw = append(raw, "\x2a\x01"...) // a truncated field
				}
				sink.BeginReplace(rebase)
				defer sink.EndReplace("9")
				if test.returned {
					return sink.Take(0, m, nil, p)
				}
				return sink.Take(0, m, raw, nil)
			}
			check.NoError(t, list(pod("a", "1"), "3", false, false))
			bad := pod("a", "bad")
			bad.UID = test.uid
			if err := list(bad, test.version, test.restored, test.cut); err == nil {
				t.Error("it was taken")
			}
			want := "d/a@3 v=1"
			if test.wantGone {
				want = ""
			}
			check.Equal(t, shown(c.inf.indexer.List()), want, "holds")
		})
	}
}

// pointedPod is a type that a transform returns. A shallow copy of a pointedPod shares the metadata
// of the original.
type pointedPod struct{ *metav1.ObjectMeta }

// TestStoredValueIsNotChanged checks that OnDelete receives the previous version if the transform
// fails for the final state. Handlers and readers may already have the value of the previous
// version, so it must not change, even if it cannot be copied.
func TestStoredValueIsNotChanged(t *testing.T) {
	for name, test := range map[string]struct {
		transformed func(metav1.ObjectMeta) any
		deleted     string // the resourceVersion that OnDelete receives
	}{
		"metadata by value":   {func(m metav1.ObjectMeta) any { return &slimPod{ObjectMeta: m} }, "2"},
		"metadata by pointer": {func(m metav1.ObjectMeta) any { return &pointedPod{&m} }, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecordedInformer(t, NewSharedIndexInformer)
			check.NoError(t, s.informer.SetTransform(func(obj any) (any, error) {
				p := obj.(*corev1.Pod)
				if p.DeletionTimestamp != nil {
					return nil, errors.New("it is being deleted")
				}
				return test.transformed(metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels}), nil
			}))
			var added metav1.Object
			gone := make(chan struct{})
			second, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { added = obj.(metav1.Object) },
				DeleteFunc: func(any) { close(gone) },
			})
			check.NoError(t, err)
			s.source.Add(pod("a", "1"))
			s.start(t)
			synced(t, second)
			last := pod("a", "9")
			last.DeletionTimestamp = &metav1.Time{}
			s.source.Delete(last)
			s.calls.wait(t, "delete d/a@"+test.deleted+" v=1")
			select {
			case <-gone:
			case <-time.After(waitTimeout):
				t.Fatal("the second handler is not told of the end")
			}
			check.Equal(t, added.GetResourceVersion(), "1", "what OnAdd got is at version now")
		})
	}
}

// TestExcludedVersions checks that handlers and the store keep the previous version if a transform
// excludes a version (ErrExcluded) or fails. The informer must count failures, and log them at most
// once a minute. It must neither count nor log exclusions.
func TestExcludedVersions(t *testing.T) {
	for name, test := range map[string]struct {
		result  func() (any, error)
		logs    int
		skipped int
	}{
		"excluded":          {func() (any, error) { return nil, ErrExcluded }, 0, 0},
		"excluded, wrapped": {func() (any, error) { return nil, fmt.Errorf("terminating: %w", ErrExcluded) }, 0, 0},
		"an error":          {func() (any, error) { return nil, errors.New("terminating") }, 3, 5},
		"nil":               {func() (any, error) { return nil, nil }, 3, 5},
		"a nil pointer":     {func() (any, error) { return (*corev1.Pod)(nil), nil }, 3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var logged []string
			silent(t, func(_ context.Context, err error, _ string, _ ...any) { logged = append(logged, err.Error()) })
			synctest.Test(t, func(t *testing.T) {
				s := newRecordedInformer(t, NewSharedIndexInformer)
				check.NoError(t, s.informer.SetTransform(func(obj any) (any, error) {
					if obj.(*corev1.Pod).Labels["v"] == "bad" {
						return test.result()
					}
					return obj, nil
				}))
				s.source.Add(pod("a", "1"))
				if name != "an error" { // which would end the list; see TestTransformError
					s.source.Add(pod("b", "bad"))
				}
				s.start(t)
				if name == "an error" {
					s.source.Add(pod("b", "bad"))
				}
				s.source.Modify(pod("a", "bad"))
				time.Sleep(61 * time.Second)
				s.source.Modify(pod("a", "bad"))
				s.source.Add(pod("c", "bad"))
				time.Sleep(61 * time.Second)
				s.source.Modify(pod("a", "bad"))
				s.source.Modify(pod("a", "2"))
				s.calls.wait(t, "update d/a@1 v=1 -> d/a@7 v=2")
				s.source.Delete(pod("b", "bad"))
				s.source.Delete(pod("a", "bad"))
				s.calls.wait(t, "delete d/a@9 v=2")
				check.Equal(t, s.calls.sorted(), "add d/a@1 v=1 initial\ndelete d/a@9 v=2\nupdate d/a@1 v=1 -> d/a@7 v=2", "told")
				status := s.informer.(*informer).engine.Statuses()
				if status[0].Skipped != test.skipped || (status[0].Err != nil) != (test.skipped > 0) {
					t.Errorf("%d skipped, %v, want %d", status[0].Skipped, status[0].Err, test.skipped)
				}
				s.stop()
				if len(logged) != test.logs || test.logs > 0 && !strings.Contains(logged[0], "skipped d/b: transform: ") {
					t.Errorf("logged %q, want %d messages", logged, test.logs)
				}
			})
		})
	}
}

// TestUndecodable checks that a handler receives each version that can be decoded. The old version
// of an update must be the version that the handler received last. A version that cannot be decoded
// must be logged once, not again at each resync.
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
			r := &registration{informer: inf, handler: calls, callbacks: callbacksOf(calls), undecodable: undecodable{}}
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
