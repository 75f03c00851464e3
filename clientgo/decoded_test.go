package clientgo

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// changingStore is an informer that does not run. The test writes its objects.
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

// change stores a new version of an object and returns it.
func (c *changingStore) change(t *testing.T, name string) *store.Object {
	t.Helper()
	return c.put(t, pod(name, "v"))
}

// put stores an object with a new resourceVersion, and returns the new version. The argument
// unknown is a protobuf field that the Go type lacks; put appends it to the object's encoding.
func (c *changingStore) put(t *testing.T, p *corev1.Pod, unknown ...byte) *store.Object {
	t.Helper()
	c.version++
	p.ResourceVersion = fmt.Sprint(c.version)
	m, raw := received(t, p)
	check.NoError(t, c.writer.Put(m, append(raw, unknown...)))
	c.writer.Flush()
	o, ok := c.inf.store.Get(p.Namespace + "/" + p.Name)
	if !ok {
		t.Fatal("not held")
	}
	return o
}

// changes calls the function take. It returns the changes that this call causes in the store, at
// most 16.
func (c *changingStore) changes(take func()) []store.Change {
	cursor := c.inf.store.Cursor()
	defer cursor.Close()
	changes := make([]store.Change, 16)
	for cursor.Next(changes) > 0 {
	}
	take()
	c.inf.sink.Flush()
	return changes[:cursor.Next(changes)]
}

// update returns the values that a handler receives for an update from the old version (was) to the
// new version (is).
func (c *changingStore) update(t *testing.T, was, is *store.Object) (old, fresh *corev1.Pod) {
	t.Helper()
	a, b, err := c.inf.indexer.reader.values(&store.Change{Revision: is.Revision(), Old: was, New: is})
	check.NoError(t, err)
	old, fresh = a.(*corev1.Pod), b.(*corev1.Pod)
	if old.ResourceVersion != was.ResourceVersion() || fresh.ResourceVersion != is.ResourceVersion() {
		t.Fatalf("%s -> %s, want %s -> %s", old.ResourceVersion, fresh.ResourceVersion, was.ResourceVersion(), is.ResourceVersion())
	}
	return old, fresh
}

// TestNewVersionIsKept checks which decoded value the store keeps. While a caller uses the new
// value of a change, readers must receive the same pointer. A handler must receive this pointer
// too, as the old value of the next change. When no caller uses the value any more, the store must
// not keep it.
func TestNewVersionIsKept(t *testing.T) {
	for _, opts := range []Options{{}, {ShareDecoded: true}} {
		synctest.Test(t, func(t *testing.T) { newVersionIsKept(t, opts) })
	}
}

func newVersionIsKept(t *testing.T, opts Options) {
	c := newChangingStore(t, opts)
	first, second := c.change(t, "a"), c.change(t, "a")
	_, fresh := c.update(t, first, second)
	if got, _, err := c.inf.indexer.GetByKey("d/a"); err != nil || got != any(fresh) {
		t.Errorf("a lister decodes again what a handler has just received, %v", err)
	}
	third := c.change(t, "a")
	old, last := c.update(t, second, third)
	if old != fresh {
		t.Error("the new version was decoded again as the old one")
	}
	if got, err := c.inf.indexer.reader.lastValue(&store.Change{Old: third}); err != nil || got != any(last) {
		t.Errorf("the last version was decoded again, %v", err)
	}
	time.Sleep(2 * decodedIdle)
	synctest.Wait()
	if held := c.inf.store.Memory().Decoded; held != 0 {
		t.Errorf("%d bytes stay", held)
	}
	runtime.KeepAlive(last)
}

// TestNothingStaysOfAnOldVersion checks that a decoded new version contains nothing of the previous
// version. The previous version has a field that the Go type lacks.
func TestNothingStaysOfAnOldVersion(t *testing.T) {
	c := newChangingStore(t, Options{ShareDecoded: true})
	labelled := pod("a", "v")
	labelled.Labels, labelled.Finalizers = map[string]string{"only": "once"}, []string{"example.com/first"}
	first := c.put(t, labelled, 0x7a, 0) // an unknown field 15, which is empty
	if _, _, err := c.inf.indexer.reader.values(&store.Change{New: first}); err != nil {
		t.Fatal(err)
	}
	second := c.change(t, "a")
	_, fresh := c.update(t, first, second)
	want, err := second.DecodeCopy()
	check.NoError(t, err)
	if !equality.Semantic.DeepEqual(fresh, want) {
		t.Errorf("a handler gets\n%v\nwant\n%v", fresh, want)
	}
	if got, _, _ := c.inf.indexer.GetByKey("d/a"); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("a lister gets\n%v\nwant\n%v", got, want)
	}
}

// TestSeveralHandlersDecodeOnce runs handlers of which some are one change behind the others. Each
// version must be decoded only once, and all handlers must receive the same value.
func TestSeveralHandlersDecodeOnce(t *testing.T) {
	const handlers = 12
	for _, opts := range []Options{{}, {ShareDecoded: true}} {
		c := newChangingStore(t, opts)
		first := c.change(t, "a")
		for range handlers {
			c.inf.store.NotifyingCursor(nil, nil)
		}
		second, third := c.change(t, "a"), c.change(t, "a")
		var oldest, middle, newest *corev1.Pod
		for i := range handlers {
			runtime.GC()
			old, fresh := c.update(t, first, second)
			sameOld, last := c.update(t, second, third)
			if i == 0 {
				oldest, middle, newest = old, fresh, last
			}
			if old != oldest || fresh != middle || sameOld != middle || last != newest {
				t.Fatalf("%+v: handler %d has its own versions", opts, i)
			}
		}
		if _, misses := c.inf.store.DecodedReads(); misses != 3 {
			t.Errorf("%+v: three versions are decoded %d times for %d handlers", opts, misses, handlers)
		}
	}
}

// TestHandlersGetTransformed checks that handlers receive the same pointers that the transform
// returned; the informer does not decode its encoded copies.
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
				register(t, inf, cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, is any) { note(is) }})
			}
			run(t, inf)
			synctest.Wait()
			for i := range 20 {
				source.Modify(pod(fmt.Sprint("p", i), "w"))
				synctest.Wait()
			}
			mu.Lock()
			if handled != 40*handlers || others > 0 {
				t.Errorf("%d handlers were told of %d objects, of which %d are not what the transform returned", handlers, handled, others)
			}
			mu.Unlock()
		})
	}
}
