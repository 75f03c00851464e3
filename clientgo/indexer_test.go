package clientgo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// byNode is an index function that returns one value.
func byNode(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }

// byLetters is an index function that returns several values.
func byLetters(obj any) ([]string, error) {
	return strings.Split(obj.(*corev1.Pod).Labels["v"], ""), nil
}

func indexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": byNode}
}

// TestIndexerSame makes the same random writes to client-go's indexer and to Weir's, and checks
// that all reading methods return equal results. Weir's indexer belongs to an informer that never
// runs.
func TestIndexerSame(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	theirs := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers())
	ours := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, indexers()).GetIndexer()
	random := func() *corev1.Pod {
		p := pod(fmt.Sprintf("p%d", rnd.IntN(8)), fmt.Sprintf("%d%d", rnd.IntN(3), rnd.IntN(3)))
		p.Namespace = []string{"", "a", "b"}[rnd.IntN(3)]
		p.ResourceVersion = []string{"", "7", "x"}[rnd.IntN(3)]
		return p
	}
	do := func(op func(cache.Indexer) error) {
		t.Helper()
		if e1, e2 := op(theirs), op(ours); (e1 == nil) != (e2 == nil) {
			t.Fatalf("client-go: %v, weir: %v", e1, e2)
		}
	}
	for step := range 500 {
		p := random()
		switch rnd.IntN(10) {
		case 0, 1:
			do(func(x cache.Indexer) error { return x.Delete(p) })
		case 2:
			do(func(x cache.Indexer) error {
				return x.Delete(cache.DeletedFinalStateUnknown{Key: cache.MetaObjectToName(p).String(), Obj: p})
			})
		case 3:
			list := []any{p, random(), random(), random()}
			do(func(x cache.Indexer) error { return x.Replace(list, "9") })
		case 4, 5, 6:
			do(func(x cache.Indexer) error { return x.Update(p) })
		default:
			do(func(x cache.Indexer) error { return x.Add(p) })
		}
		if step == 250 {
			do(func(x cache.Indexer) error { return x.AddIndexers(cache.Indexers{"letters": byLetters}) })
			do(func(x cache.Indexer) error { return x.AddIndexers(cache.Indexers{"more": byLetters, "node": byNode}) })
		}
		probe := random()
		if a, b := dump(theirs, probe), dump(ours, probe); a != b {
			t.Fatalf("step %d:\nclient-go\n%s\nweir\n%s", step, a, b)
		}
	}
	x := ours.(*indexer)
	check.Equal(t, x.LastStoreSyncResourceVersion(), "9", "LastStoreSyncResourceVersion")
	x.Bookmark("10")
	check.Equal(t, x.LastStoreSyncResourceVersion(), "10", "after a bookmark it")
	check.NoError(t, ours.Resync())
}

// dump returns the results of all reading methods of an indexer as text.
func dump(x cache.Indexer, probe *corev1.Pod) string {
	var b strings.Builder
	keys := x.ListKeys()
	slices.Sort(keys)
	fmt.Fprintln(&b, "keys", keys)
	fmt.Fprintln(&b, "list", shown(x.List()))
	for _, key := range append(keys, "a/none") {
		item, ok, err := x.GetByKey(key)
		fmt.Fprintln(&b, "get", key, ok, err, show(item))
	}
	item, ok, err := x.Get(probe)
	fmt.Fprintln(&b, "get probe", ok, err, show(item))
	for _, index := range []string{cache.NamespaceIndex, "node", "letters", "none"} {
		values := x.ListIndexFuncValues(index)
		slices.Sort(values)
		fmt.Fprintln(&b, index, values)
		for _, value := range append(values, "nothing") {
			items, err := x.ByIndex(index, value)
			keys, err2 := x.IndexKeys(index, value)
			fmt.Fprintln(&b, "by", index, value, shown(items), err, keys, err2)
		}
		items, err := x.Index(index, probe)
		fmt.Fprintln(&b, "index", index, shown(items), err)
	}
	names := []string{}
	for name := range x.GetIndexers() {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintln(&b, names)
	return b.String()
}

// TestIndexerKeyError checks that methods return client-go's KeyError for a value without metadata.
func TestIndexerKeyError(t *testing.T) {
	x := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).GetIndexer()
	var key cache.KeyError
	for name, do := range map[string]func() error{
		"Add":     func() error { return x.Add("no object") },
		"Update":  func() error { return x.Update("no object") },
		"Delete":  func() error { return x.Delete("no object") },
		"Replace": func() error { return x.Replace([]any{"no object"}, "") },
		"Get":     func() error { _, _, err := x.Get("no object"); return err },
	} {
		if err := do(); !errors.As(err, &key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if item, ok, err := x.Get(cache.ExplicitKey("a/b")); item != nil || ok || err != nil {
		t.Errorf("by an explicit key: %v, %v, %v", item, ok, err)
	}
}

// TestManualWriteRefused checks that a write of an object without a name, or of a tombstone,
// returns an error and changes nothing. In this case Replace must also keep the stored objects that
// its argument lacks.
func TestManualWriteRefused(t *testing.T) {
	a, b, changed := pod("a", "1"), pod("b", "1"), pod("a", "2")
	tomb := cache.DeletedFinalStateUnknown{Key: "d/c", Obj: pod("c", "1")}
	for name, write := range map[string]func(cache.Store) error{
		"Add":                  func(s cache.Store) error { return s.Add(pod("", "1")) },
		"Update":               func(s cache.Store) error { return s.Update(pod("", "1")) },
		"Add of a tombstone":   func(s cache.Store) error { return s.Add(tomb) },
		"Replace":              func(s cache.Store) error { return s.Replace([]any{changed, pod("", "1")}, "9") },
		"Replace by tombstone": func(s cache.Store) error { return s.Replace([]any{changed, tomb}, "9") },
	} {
		x := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).GetIndexer().(*indexer)
		check.NoError(t, errors.Join(x.Add(a), x.Add(b), x.Replace([]any{a, b}, "5")))
		if err := write(x); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got, want := shown(x.List()), shown([]any{a, b}); got != want || x.LastStoreSyncResourceVersion() != "5" {
			t.Errorf("%s: holds %q as of %s, want %q", name, got, x.LastStoreSyncResourceVersion(), want)
		}
	}
}

// TestManualWriteWhileRunning checks an object that the program writes to the store itself: the
// informer stores it unchanged, handlers receive it, and a later change from the server replaces
// it.
func TestManualWriteWhileRunning(t *testing.T) {
	s := newRecordedInformer(t, NewSharedIndexInformer)
	s.source.Add(pod("a", "1"))
	s.start(t)
	mine := pod("a", "mine")
	mine.ResourceVersion = "1"
	check.NoError(t, s.informer.GetIndexer().Update(mine))
	if got, _, _ := s.informer.GetIndexer().GetByKey("d/a"); got != any(mine) {
		t.Errorf("the store gives %v, not what was put in", got)
	}
	s.calls.wait(t, "update d/a@1 v=1 -> d/a@1 v=mine")
	s.source.Modify(pod("a", "2"))
	s.calls.wait(t, "update d/a@1 v=mine -> d/a@2 v=2")
	check.NoError(t, s.informer.GetStore().Delete(&metav1.ObjectMeta{Namespace: "d", Name: "a"}))
	s.calls.wait(t, "delete d/a@2 v=2")
}

// TestManualDelete checks that a relist restores an object that the program has deleted from the
// store.
func TestManualDelete(t *testing.T) {
	for name, remove := range map[string]func(cache.Store) error{
		"Delete":  func(s cache.Store) error { return s.Delete(&metav1.ObjectMeta{Namespace: "d", Name: "a"}) },
		"Replace": func(s cache.Store) error { return s.Replace(nil, "1") },
	} {
		for maker, make := range bothConstructors {
			t.Run(name+"/"+maker, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newRecordedInformer(t, make)
					a := pod("a", "1")
					a.UID = "00000000-0000-4000-8000-000000000001"
					s.source.Add(a)
					s.start(t)
					check.NoError(t, remove(s.informer.GetStore()))
					if _, ok, _ := s.informer.GetStore().GetByKey("d/a"); ok {
						t.Error("held after its deletion")
					}
					s.source.AddDropWatch(pod("b", "1"))
					s.source.ResetWatch()
					s.calls.wait(t, "add d/b@2 v=1")
					synctest.Wait()
					if _, ok, _ := s.informer.GetStore().GetByKey("d/a"); !ok {
						t.Error("not held after the relist")
					}
					if !slices.Contains(s.calls.all(), "add d/a@1 v=1") {
						t.Errorf("told %q", s.calls.all())
					}
				})
			})
		}
	}
}
