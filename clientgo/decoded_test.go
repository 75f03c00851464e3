package clientgo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// changingStore is a store whose objects a test changes.
type changingStore struct {
	inf     *informer
	writer  *store.Writer
	version int
}

func newChangingStore(t *testing.T, opts Options) *changingStore {
	inf := NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, nil, opts).(*informer)
	t.Cleanup(inf.store.Close)
	return &changingStore{inf: inf, writer: inf.store.Writer(store.Scope{})}
}

// change changes an object and returns the new version.
func (c *changingStore) change(t *testing.T, name string) *store.Object {
	t.Helper()
	return c.put(t, pod(name, "v"))
}

// put stores an object with another resourceVersion and with unknown bytes after its own, and
// returns the new version.
func (c *changingStore) put(t *testing.T, p *corev1.Pod, unknown ...byte) *store.Object {
	t.Helper()
	c.version++
	p.ResourceVersion = fmt.Sprint(c.version)
	raw := append(marshal(t, p), unknown...)
	var m wire.Meta
	check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
	check.NoError(t, c.writer.Put(&m, raw))
	c.writer.Flush()
	o, ok := c.inf.store.Get(p.Namespace + "/" + p.Name)
	if !ok {
		t.Fatal("not held")
	}
	return o
}

// update returns the values that a handler receives for a change.
func (c *changingStore) update(t *testing.T, was, is *store.Object, others int) (old, fresh *corev1.Pod) {
	t.Helper()
	a, b, err := c.inf.indexer.reader.updateValues(was, is, others)
	check.NoError(t, err)
	old, fresh = a.(*corev1.Pod), b.(*corev1.Pod)
	if old.ResourceVersion != was.ResourceVersion() || fresh.ResourceVersion != is.ResourceVersion() {
		t.Fatalf("%s -> %s, want %s -> %s", old.ResourceVersion, fresh.ResourceVersion, was.ResourceVersion(), is.ResourceVersion())
	}
	return old, fresh
}

// TestNewVersionIsKept checks that the new value of one change is the old value of the next,
// decoded once, and that readers get it in between; that it is dropped when the object is idle; and
// that nothing remains of a version that was replaced or deleted.
func TestNewVersionIsKept(t *testing.T) {
	for _, opts := range []Options{{}, {ShareDecoded: true}} {
		synctest.Test(t, func(t *testing.T) { newVersionIsKept(t, opts) })
	}
}

func newVersionIsKept(t *testing.T, opts Options) {
	c := newChangingStore(t, opts)
	reader := c.inf.indexer.reader
	first, second := c.change(t, "a"), c.change(t, "a")
	_, fresh := c.update(t, first, second, 0)
	if got, _, err := c.inf.indexer.GetByKey("d/a"); err != nil || got != any(fresh) {
		t.Errorf("a lister decodes again what a handler has just got, %v", err)
	}
	third := c.change(t, "a")
	old, fresh := c.update(t, second, third, 0)
	if redecoded, _ := c.update(t, second, third, 0); redecoded == old || second.IsDecoded() {
		t.Error("the previous version is kept without a user")
	}
	fourth := c.change(t, "a")
	if old, _ := c.update(t, third, fourth, 0); old != fresh {
		t.Error("the new version was decoded again as the old one")
	}
	time.Sleep(decodedIdle - time.Second)
	if !fourth.IsDecoded() {
		t.Error("gone too soon")
	}
	time.Sleep(2 * decodedIdle)
	synctest.Wait()
	check.Equal(t, c.inf.store.Memory().Decoded, 0, "bytes stay")
	fifth := c.change(t, "a")
	_, fresh = c.update(t, fourth, fifth, 0)
	if last, err := reader.lastValue(fifth, 0); err != nil || last != any(fresh) {
		t.Errorf("the last version was decoded again, %v", err)
	}
	check.Equal(t, c.inf.store.Memory().Decoded, 0, "bytes stay")
}

// TestNothingStaysOfAnOldVersion: if a version has a field that this program does not know, the
// next version does not inherit it.
func TestNothingStaysOfAnOldVersion(t *testing.T) {
	c := newChangingStore(t, Options{ShareDecoded: true})
	labelled := pod("a", "v")
	labelled.Labels, labelled.Finalizers = map[string]string{"only": "once"}, []string{"example.com/first"}
	first := c.put(t, labelled, 0x7a, 0) // an empty field 15
	if _, err := c.inf.indexer.reader.newValue(first, 0); err != nil {
		t.Fatal(err)
	}
	second := c.change(t, "a")
	_, fresh := c.update(t, first, second, 0)
	want, err := second.DecodeCopy()
	check.NoError(t, err)
	if !equality.Semantic.DeepEqual(fresh, want) {
		t.Errorf("a handler gets\n%v\nwant\n%v", fresh, want)
	}
	if got, _, _ := c.inf.indexer.GetByKey("d/a"); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("a lister gets\n%v\nwant\n%v", got, want)
	}
}

// TestSeveralHandlersGetTheSame checks that several handlers get the same values, although one is a
// change behind the other.
func TestSeveralHandlersGetTheSame(t *testing.T) {
	for _, opts := range []Options{{}, {ShareDecoded: true}} {
		c := newChangingStore(t, opts)
		first, second, third := c.change(t, "a"), c.change(t, "a"), c.change(t, "a")
		_, newest := c.update(t, first, second, 1)
		newestOld, newestNew := c.update(t, second, third, 1)
		if _, behind := c.update(t, first, second, 1); behind != newest {
			t.Errorf("%+v: the slower handler has its own new version", opts)
		}
		old, fresh := c.update(t, second, third, 1)
		if old != newestOld || fresh != newestNew || old != newest {
			t.Errorf("%+v: the slower handler has its own versions", opts)
		}
	}
}

// TestSeveralHandlersDecodeOnce checks that the versions of a change are decoded once for all
// handlers, although the budget has no room to keep one for the next change.
func TestSeveralHandlersDecodeOnce(t *testing.T) {
	const handlers, objects = 12, 100
	for _, opts := range []Options{{}, {ShareDecoded: true}} {
		opts.DecodedBudget = 64 << 10
		c := newChangingStore(t, opts)
		var was [objects]*store.Object
		for i := range was {
			was[i] = c.change(t, fmt.Sprint("p", i))
		}
		_, before := c.inf.store.DecodedReads()
		for i := range was {
			is := c.change(t, fmt.Sprint("p", i))
			for range handlers {
				c.update(t, was[i], is, handlers-1)
			}
		}
		if _, misses := c.inf.store.DecodedReads(); misses-before > 2*objects {
			t.Errorf("%+v: %d changes are decoded in %d for %d handlers", opts, objects, misses-before, handlers)
		}
		for i := range objects {
			added := c.change(t, fmt.Sprint("new", i))
			for range handlers {
				if _, err := c.inf.indexer.reader.newValue(added, handlers-1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, misses := c.inf.store.DecodedReads(); misses-before > 3*objects {
			t.Errorf("%+v: with %d new objects it is %d", opts, objects, misses-before)
		}
	}
}

// TestSeveralHandlersHoldNothing checks that several handlers of a first list leave nothing decoded
// in the store, like one handler.
func TestSeveralHandlersHoldNothing(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 300})
	inf := NewSharedIndexInformer(podsOf(capturing(server.Config())), &corev1.Pod{}, 0, nil).(*informer)
	var added atomic.Int32
	var handlers []cache.DoneChecker
	for range 3 {
		r, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added.Add(1) }})
		check.NoError(t, err)
		handlers = append(handlers, r.HasSyncedChecker())
	}
	run(t, inf)
	synced(t, handlers...)
	check.Equal(t, added.Load(), 900, "objects were handed out")
	eventually(t, func() bool { return inf.store.Memory().Decoded == 0 })
}

// TestHandlersGetTransformed checks that handlers receive the results of a transform, and that
// almost nothing is decoded for them.
func TestHandlersGetTransformed(t *testing.T) {
	for _, handlers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			source := newFakeSource(t)
			for i := range 20 {
				source.Add(pod(fmt.Sprint("p", i), "v"))
			}
			inf := NewSharedIndexInformer(source, &corev1.Pod{}, 0, nil).(*informer)
			var mu sync.Mutex
			returned, handled, others := map[any]bool{}, 0, 0
			check.NoError(t, inf.SetTransform(func(object any) (any, error) {
				mu.Lock()
				defer mu.Unlock()
				returned[object] = true
				return object, nil
			}))
			note := func(object any) {
				mu.Lock()
				defer mu.Unlock()
				if handled++; !returned[object] {
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
			// A handler may run before the value is cached.
			if handled != 40*handlers || others > handled/10 {
				t.Errorf("%d handlers were told of %d objects, of which %d are not what the transform returned", handlers, handled, others)
			}
			mu.Unlock()
			cancel()
			<-done
		})
	}
}
