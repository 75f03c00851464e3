package weir_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestPrivateCopies checks that reads return private copies if PrivateCopies is set. If it is not
// set, only Copy returns one.
func TestPrivateCopies(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	for _, private := range []bool{false, true} {
		inf, stop := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{
			PrivateCopies: private, Indexes: map[string]weir.Index{"n": weir.ByFunc(byName)},
		})
		told := make(chan weir.Event[*corev1.ConfigMap], 1)
		handle(t, inf, func(_ context.Context, e weir.Event[*corev1.ConfigMap]) { told <- e })
		check.NoError(t, inf.WaitForSync(ctx))
		event := <-told
		reads := map[string]func() (*corev1.ConfigMap, error){
			"Get":          func() (*corev1.ConfigMap, error) { return inf.Get("d/a") },
			"Snapshot.Get": func() (*corev1.ConfigMap, error) { return inf.Snapshot().Get("d/a") },
			"Event.Object": event.Object,
			"All": func() (found *corev1.ConfigMap, err error) {
				for m, e := range inf.All() {
					if e == nil && m.Name == "a" {
						found = m
					}
				}
				return found, err
			},
			"By": func() (found *corev1.ConfigMap, err error) {
				for m, e := range inf.By("n", "a") {
					found, err = m, e
				}
				return found, err
			},
		}
		shared, err := inf.Get("d/a")
		check.NoError(t, err)
		for name, read := range reads {
			got, err := read()
			if err != nil || (got == shared) == private {
				t.Errorf("private %v: %s gives the shared object: %v, %v", private, name, got == shared, err)
			}
		}
		item, _ := inf.Item("d/a")
		testenv.ScribbleOver(shared)
		own, err := item.Copy()
		if err != nil || own.Labels["initial"] != "a" || len(own.Labels) != 1 {
			t.Errorf("private %v: a change to another copy appears in this one: %v, %v", private, own.Labels, err)
		}
		stop()
	}
	var none weir.Item[*corev1.ConfigMap]
	if _, err := none.Copy(); err == nil {
		t.Error("a copy of nothing")
	}
}

// TestHandlersKeepNothingDecoded checks that the informer does not keep the objects that only
// handlers have decoded. Otherwise it would keep every decoded object after the first list.
func TestHandlersKeepNothingDecoded(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{Pods: 300})
	inf, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{})
	check.NoError(t, err)
	var looked atomic.Int32
	var handlers []*weir.Registration
	for range 3 {
		handlers = append(handlers, handle(t, inf, func(_ context.Context, e weir.Event[*corev1.Pod]) {
			first, err := e.Object()
			again, err2 := e.Item().Object()
			if err != nil || err2 != nil || first != again {
				t.Error(first, again, err, err2)
			}
			looked.Add(1)
		}))
	}
	runInformer(t, ctx, inf)
	for _, h := range handlers {
		check.NoError(t, h.WaitForSync(ctx))
	}
	check.Equal(t, looked.Load(), 900, "objects were looked at")
	// The log drops the decoded objects when the last handler requests its next change. That happens
	// after WaitForSync has returned.
	const tracked = 300 * 160 // bytes of the records about decoded objects that a caller may still use
	testenv.Eventually(t, ctx, "no value is left", func() bool { return inf.Stats().Memory.Decoded <= tracked })
	if s := inf.Stats(); s.DecodedMisses < 300 || s.DecodedHits < 900 || s.DecodedHits+s.DecodedMisses != 1800 {
		t.Errorf("of 1,800 reads %d found the object decoded, and %d did not", s.DecodedHits, s.DecodedMisses)
	}
}

// TestStatsWhileIndexIsRead calls Stats while an index function blocks a read of the index. Stats
// must not wait, and must report the size that the index had after the previous read.
func TestStatsWhileIndexIsRead(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a")
	entered, release := make(chan struct{}), make(chan struct{})
	inf, _ := start[*corev1.ConfigMap](t, ctx, server.Config(), weir.Options{
		Indexes: map[string]weir.Index{"name": weir.ByFunc(func(m *corev1.ConfigMap) ([]string, error) {
			if m.Name == "blocks" {
				close(entered)
				<-release
			}
			return []string{m.Name}, nil
		})},
	})
	check.NoError(t, inf.WaitForSync(ctx))
	read := func(value string) (n int) {
		for _, err := range inf.By("name", value) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		return n
	}
	if n := read("a"); n != 1 {
		t.Fatalf("%d objects are called a", n)
	}
	before := inf.Stats()
	if before.Memory.Indexes == 0 {
		t.Error("the index takes no memory")
	}
	made := makeConfigMap(ctx, client, "d", "blocks")
	check.NoError(t, inf.WaitForResourceVersion(ctx, made.ResourceVersion))
	var reading sync.WaitGroup
	reading.Go(func() { read("blocks") })
	<-entered
	told := make(chan weir.Stats, 1)
	go func() { told <- inf.Stats() }()
	select {
	case s := <-told:
		if s.Objects != before.Objects+1 || s.Memory.Indexes != before.Memory.Indexes {
			t.Errorf("%d objects with %d bytes of indexes, want %d with %d", s.Objects, s.Memory.Indexes, before.Objects+1, before.Memory.Indexes)
		}
	case <-ctx.Done():
		t.Error("the figures wait for the index's function")
	}
	close(release)
	reading.Wait()
	if s := inf.Stats(); s.Memory.Indexes <= before.Memory.Indexes {
		t.Errorf("%d bytes of indexes with one more object, %d before", s.Memory.Indexes, before.Memory.Indexes)
	}
}

// TestInitial checks that Initial is true for the objects of the first list, and for the objects
// that were stored when the handler was added. It must be false for objects that are created later.
func TestInitial(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	makeConfigMap(ctx, client, "d", "a-listed")
	inf, err := weir.NewInformer[*corev1.ConfigMap](server.Config(), weir.Options{})
	check.NoError(t, err)
	add := func() (*weir.Registration, <-chan string) {
		t.Helper()
		events := make(chan string, 10)
		return handle(t, inf, func(_ context.Context, e weir.Event[*corev1.ConfigMap]) {
			events <- fmt.Sprintf("%s %s %t", e.Type, e.Key(), e.Initial)
		}), events
	}
	expect := func(events <-chan string, want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case e := <-events:
				got = append(got, e)
			case <-ctx.Done():
				t.Fatalf("got %q and no more, want %q", got, want)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	first, early := add()
	runInformer(t, ctx, inf)
	check.NoError(t, first.WaitForSync(ctx))
	makeConfigMap(ctx, client, "d", "b-watched")
	expect(early, "ADDED d/a-listed true", "ADDED d/b-watched false")
	second, late := add()
	check.NoError(t, second.WaitForSync(ctx))
	makeConfigMap(ctx, client, "d", "c-later")
	expect(late, "ADDED d/a-listed true", "ADDED d/b-watched true", "ADDED d/c-later false")
	expect(early, "ADDED d/c-later false")
}
