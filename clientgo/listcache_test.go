package clientgo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/store"
)

func (c *listCache) there() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cursor != nil
}

// TestListCache checks that the second List makes a cache, which follows all changes and is dropped
// once nobody has listed for long.
func TestListCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(3, 4))
		x := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).GetIndexer().(*indexer)
		held := map[string]string{}
		check := func(cached bool) {
			t.Helper()
			got := x.List()
			if len(got) != len(held) {
				t.Fatalf("%d listed, %d held", len(got), len(held))
			}
			for _, obj := range got {
				p := obj.(*corev1.Pod)
				if v, ok := held[p.Name]; !ok || v != p.Labels["v"] {
					t.Fatalf("%s is listed with %s, held with %q", p.Name, p.Labels["v"], v)
				}
			}
			if is := x.lists.there(); is != cached {
				t.Fatalf("cached %v, want %v", is, cached)
			}
			if len(got) > 0 {
				got[0] = nil // the slice is the caller's
			}
		}
		change := func() {
			for range rnd.IntN(600) {
				name := fmt.Sprint(rnd.IntN(300))
				if rnd.IntN(3) == 0 {
					delete(held, name)
					if err := x.Delete(pod(name, "")); err != nil {
						t.Fatal(err)
					}
					continue
				}
				v := fmt.Sprint(rnd.IntN(100))
				held[name] = v
				if err := x.Update(pod(name, v)); err != nil {
					t.Fatal(err)
				}
			}
		}
		change()
		check(false)
		time.Sleep(2 * listIdle) // long enough for the next List to be the first
		check(false)
		for range 50 {
			change()
			time.Sleep(listIdle / 2)
			check(true)
		}
		time.Sleep(listIdle + time.Second)
		synctest.Wait()
		if x.lists.there() {
			t.Error("the cache is still there after a minute in which nobody listed")
		}
		check(false)
		check(true)
		x.store.Close()
		check(false)
		check(false) // the store can still be listed
	})
}

// TestListCacheUndecodable checks that a version that cannot be decoded is left out, and that a
// later one is listed again.
func TestListCacheUndecodable(t *testing.T) {
	x := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).GetIndexer().(*indexer)
	bad := ""
	value := func(o *store.Object) (any, error) {
		if o.Key() == bad {
			return nil, errors.New("cannot be decoded")
		}
		return x.reader.value(o)
	}
	list := func() int {
		for range 2 {
			if values, ok := x.lists.list(value); ok {
				return len(values)
			}
		}
		t.Fatal("no cache")
		return 0
	}
	put := func(name, v string) {
		if err := x.Update(pod(name, v)); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "1")
	put("b", "1")
	if n := list(); n != 2 {
		t.Errorf("%d of two", n)
	}
	bad = "d/a"
	put("a", "2")
	put("b", "2")
	if n := list(); n != 1 {
		t.Errorf("%d of one that can be decoded", n)
	}
	bad = ""
	put("a", "3")
	if n := list(); n != 2 {
		t.Errorf("%d of two", n)
	}
}
