package clientgo

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
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
	t.Cleanup(inf.indexer.reader.close)
	return &changingStore{inf: inf, writer: inf.store.Writer(store.Scope{})}
}

// change changes an object and returns the new version.
func (c *changingStore) change(t *testing.T, name string) *store.Object {
	t.Helper()
	c.version++
	p := pod(name, "v")
	p.ResourceVersion = fmt.Sprint(c.version)
	raw := marshal(t, p)
	var m wire.Meta
	if err := wire.ReadMeta(wire.Protobuf, raw, &m); err != nil {
		t.Fatal(err)
	}
	if err := c.writer.Put(&m, raw); err != nil {
		t.Fatal(err)
	}
	c.writer.Flush()
	o, ok := c.inf.store.Get(p.Namespace + "/" + name)
	if !ok {
		t.Fatal("not held")
	}
	return o
}

// update returns what a handler gets for a change.
func (c *changingStore) update(t *testing.T, was, is *store.Object, several bool) (old, fresh *corev1.Pod) {
	t.Helper()
	a, b, err := c.inf.indexer.reader.updateValues(was, is, several)
	if err != nil {
		t.Fatal(err)
	}
	old, fresh = a.(*corev1.Pod), b.(*corev1.Pod)
	if old.ResourceVersion != was.ResourceVersion() || fresh.ResourceVersion != is.ResourceVersion() {
		t.Fatalf("%s -> %s, want %s -> %s", old.ResourceVersion, fresh.ResourceVersion, was.ResourceVersion(), is.ResourceVersion())
	}
	return old, fresh
}

// TestUpdateCacheFlood checks that most of the budget stays free if more objects change in turn
// than it has room for.
func TestUpdateCacheFlood(t *testing.T) {
	c := newChangingStore(t, Options{})
	held := c.inf.indexer.reader.updates
	held.budget = 8 * 3000
	c.inTurn(t, 2000, 4)
	if objects, bytes := held.holds(); objects == 0 || bytes > 3000 {
		t.Errorf("%d objects of %d bytes are held", objects, bytes)
	}
}

// TestUpdateCacheInTurn checks that objects that change in turn are cached as far as the budget
// goes, and dropped when there are too many of them.
func TestUpdateCacheInTurn(t *testing.T) {
	c := newChangingStore(t, Options{})
	held := c.inf.indexer.reader.updates
	held.budget = 100_000
	c.inTurn(t, 200, 10)
	if objects, bytes := held.holds(); objects != 200 || bytes < held.budget/8 {
		t.Errorf("%d objects of %d bytes are held", objects, bytes)
	}
	c.inTurn(t, 8000, 2)
	if objects, bytes := held.holds(); objects == 0 || bytes > held.budget/8 {
		t.Errorf("%d objects of %d bytes are still held", objects, bytes)
	}
}

// TestUpdateCacheForListers checks that objects that change once are cached if somebody reads them
// afterwards.
func TestUpdateCacheForListers(t *testing.T) {
	c := newChangingStore(t, Options{})
	held := c.inf.indexer.reader.updates
	held.budget = 1 << 20
	for i := range 1000 {
		name := fmt.Sprint("p", i)
		c.update(t, c.change(t, name), c.change(t, name), false)
		if _, exists, err := c.inf.indexer.GetByKey("d/" + name); !exists || err != nil {
			t.Fatal(exists, err)
		}
	}
	if objects, bytes := held.holds(); objects != 1000 {
		t.Errorf("%d objects of %d bytes are held", objects, bytes)
	}
}

// inTurn changes n objects one after the other, that many times.
func (c *changingStore) inTurn(t *testing.T, n, times int) {
	t.Helper()
	last := make([]*store.Object, n)
	for i := range n {
		last[i] = c.change(t, fmt.Sprint("p", i))
	}
	for range times {
		for i := range n {
			is := c.change(t, fmt.Sprint("p", i))
			c.update(t, last[i], is, false)
			last[i] = is
		}
	}
}

func (r *updateCache) holds() (objects int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries), r.bytes
}

// TestUpdateCache checks that the new value of one change is the old one of the next, decoded once;
// that it is dropped once the object is idle; and that nothing stays of a deleted object.
func TestUpdateCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingStore(t, Options{})
		held := c.inf.indexer.reader.updates
		first, second := c.change(t, "a"), c.change(t, "a")
		_, fresh := c.update(t, first, second, false)
		if got, _, err := c.inf.indexer.GetByKey("d/a"); err != nil || got != any(fresh) {
			t.Errorf("a lister decodes again what a handler has just got, %v", err)
		}
		third := c.change(t, "a")
		old, fresh := c.update(t, second, third, false)
		if again, _ := c.update(t, second, third, false); again == old {
			t.Error("the version before is held for nobody")
		}
		fourth := c.change(t, "a")
		if old, _ := c.update(t, third, fourth, false); old != fresh {
			t.Error("the new version was decoded again as the old one")
		}
		time.Sleep(decodedIdle - time.Second)
		if _, ok := held.get(fourth); !ok {
			t.Error("gone too soon")
		}
		time.Sleep(2 * decodedIdle)
		if objects, bytes := held.holds(); objects != 0 || bytes != 0 {
			t.Errorf("%d objects of %d bytes stay", objects, bytes)
		}
		fifth := c.change(t, "a")
		_, fresh = c.update(t, fourth, fifth, false)
		if last, err := c.inf.indexer.reader.lastValue(fifth); err != nil || last != any(fresh) {
			t.Errorf("the last version was decoded again, %v", err)
		}
		if objects, bytes := held.holds(); objects != 0 || bytes != 0 {
			t.Errorf("%d objects of %d bytes stay", objects, bytes)
		}
		time.Sleep(decodedIdle)
	})
}

// TestUpdateCacheSeveralHandlers checks that several handlers get the same values, though one is a
// change behind the other.
func TestUpdateCacheSeveralHandlers(t *testing.T) {
	c := newChangingStore(t, Options{})
	first, second, third := c.change(t, "a"), c.change(t, "a"), c.change(t, "a")
	_, ahead := c.update(t, first, second, true)
	aheadOld, aheadNew := c.update(t, second, third, true)
	if _, behind := c.update(t, first, second, true); behind != ahead {
		t.Error("the slower handler has its own new version")
	}
	old, fresh := c.update(t, second, third, true)
	if old != aheadOld || fresh != aheadNew || old != ahead {
		t.Error("the slower handler has its own versions")
	}
}

// TestUpdateCacheBudget checks that the cache keeps to its budget, and that later objects do not
// displace cached ones.
func TestUpdateCacheBudget(t *testing.T) {
	c := newChangingStore(t, Options{DecodedBudget: 8 * 3000})
	held := c.inf.indexer.reader.updates
	for i := range 200 {
		name := fmt.Sprint("p", i)
		c.update(t, c.change(t, name), c.change(t, name), false)
		if held.bytes > 3000 {
			t.Fatalf("%d bytes are held", held.bytes)
		}
	}
	if n := len(held.entries); n == 0 || n == 200 {
		t.Errorf("%d are held", n)
	}
	if held.entries["d/p0"] == nil {
		t.Error("the first one was pushed out")
	}
	held.close()
	c.update(t, c.change(t, "p0"), c.change(t, "p0"), false)
	if held.bytes != 0 || len(held.entries) != 0 {
		t.Error("something is held after the end")
	}
}
