package clientgo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/store"
)

// TestSeveralHandlersHoldNothing checks that several handlers of a first list leave nothing decoded
// in the store, as one handler does.
func TestSeveralHandlersHoldNothing(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 300})
	inf := NewSharedIndexInformer(podsOf(capturing(server.Config())), &corev1.Pod{}, 0, nil).(*informer)
	var told atomic.Int32
	var handlers []cache.DoneChecker
	for range 3 {
		r, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { told.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, r.HasSyncedChecker())
	}
	run(t, inf)
	synced(t, handlers...)
	if held := inf.store.Memory().Decoded; told.Load() != 900 || held != 0 {
		t.Errorf("%d objects were handed out, %d bytes are held decoded", told.Load(), held)
	}
}

// sharedValue returns what one of several handlers gets of a version.
func (c *changingStore) sharedValue(t *testing.T, o *store.Object) *corev1.Pod {
	t.Helper()
	value, err := c.inf.indexer.reader.sharedHandlerValue(o)
	if err != nil {
		t.Fatal(err)
	}
	return value.(*corev1.Pod)
}

// TestHandlerCache checks that other handlers and readers get the first handler's value, until no
// value has come for a while.
func TestHandlerCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingStore(t, Options{})
		first, second := c.change(t, "a"), c.change(t, "b")
		a := c.sharedValue(t, first)
		if c.sharedValue(t, first) != a {
			t.Error("the other handler was shown another value")
		}
		if read, err := c.inf.indexer.reader.value(first); err != nil || read != any(a) {
			t.Errorf("a reader got another value: %v", err)
		}
		time.Sleep(handlerCacheIdle * 3 / 4)
		b := c.sharedValue(t, second)
		time.Sleep(handlerCacheIdle * 3 / 4)
		if c.sharedValue(t, first) != a || c.sharedValue(t, second) != b {
			t.Error("let go of while another handler had just come by")
		}
		time.Sleep(2 * handlerCacheIdle)
		synctest.Wait()
		if held := c.inf.indexer.reader.handlerCache; len(held.values) != 0 || len(held.order) != 0 || held.bytes != 0 {
			t.Errorf("%d values of %d bytes are held by an idle informer", len(held.values), held.bytes)
		}
	})
}

// TestHandlerCacheBudget checks that the cache keeps to its budget, with the newest values, and is
// empty once the informer has ended.
func TestHandlerCacheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingStore(t, Options{DecodedBudget: 3000})
		held := c.inf.indexer.reader.handlerCache
		var versions []*store.Object
		for i := range 200 {
			versions = append(versions, c.change(t, fmt.Sprint("p", i)))
			c.sharedValue(t, versions[i])
			if held.bytes > 3000 || len(held.values) != len(held.order)-held.next || len(held.order) > 2*len(held.values)+64 {
				t.Fatalf("%d values of %d bytes are held, %d in order", len(held.values), held.bytes, len(held.order)-held.next)
			}
		}
		n := len(held.values)
		if n < 2 || n == 200 {
			t.Errorf("%d values are held", n)
		}
		for i, o := range slices.Backward(versions) {
			if _, ok := held.get(o); ok != (i >= 200-n) {
				t.Errorf("version %d of 200: held %t", i, ok)
			}
		}
		held.close()
		if c.sharedValue(t, versions[0]); held.bytes != 0 || len(held.values) != 0 {
			t.Errorf("%d bytes are held after the end", held.bytes)
		}
	})
}

// TestHandlerCacheTake checks that values that were taken, and their versions, are not kept however
// long this goes on.
func TestHandlerCacheTake(t *testing.T) {
	c := newChangingStore(t, Options{})
	reader := c.inf.indexer.reader
	kept := c.change(t, "kept")
	reader.cacheTransformed(kept, "kept")
	for i := range 1000 {
		o := c.change(t, "a")
		reader.cacheTransformed(o, i)
		if value, err := reader.handlerValue(o); err != nil || value != any(i) {
			t.Fatalf("%v, %v", value, err)
		}
		if value, err := reader.handlerValue(o); err != nil || value == any(i) {
			t.Fatalf("taken twice: %v, %v", value, err)
		}
	}
	if held := reader.handlerCache; len(held.values) != 1 || len(held.order) > 66 || held.bytes != valueFactor*int64(kept.Size()) {
		t.Errorf("%d values of %d bytes are held, and %d versions", len(held.values), held.bytes, len(held.order))
	}
}

// TestHandlerCacheOfTransformed checks that handlers get what a transform returned, and that almost
// nothing is decoded for them.
func TestHandlerCacheOfTransformed(t *testing.T) {
	for _, handlers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			source := newFakeSource(t)
			for i := range 20 {
				source.Add(pod(fmt.Sprint("p", i), "v"))
			}
			inf := NewSharedIndexInformer(source, &corev1.Pod{}, 0, nil).(*informer)
			var mu sync.Mutex
			returned, told, others := map[any]bool{}, 0, 0
			if err := inf.SetTransform(func(object any) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				returned[object] = true
				return object, nil
			}); err != nil {
				t.Fatal(err)
			}
			note := func(object any) {
				mu.Lock()
				defer mu.Unlock()
				if told++; !returned[object] {
					others++
				}
			}
			for range handlers {
				if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, is any) { note(is) }}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); inf.RunWithContext(ctx) }()
			synctest.Wait()
			for i := range 20 {
				source.Modify(pod(fmt.Sprint("p", i), "w"))
				synctest.Wait()
			}
			mu.Lock()
			if told != 40*handlers || others > told/10 { // a handler may be faster than the cache is filled
				t.Errorf("%d handlers were told of %d objects, of which %d are not what the transform returned", handlers, told, others)
			}
			mu.Unlock()
			cancel()
			<-done
		})
	}
}
