package clientgo

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestIndexUsesHandlersValues checks that an index which exists from the start is computed from the
// decoded objects that handlers are about to receive. A later read of the index then decodes no
// object.
func TestIndexUsesHandlersValues(t *testing.T) {
	const n = 50
	for _, handlers := range []int{1, 2} {
		t.Run(fmt.Sprint(handlers), func(t *testing.T) {
			s := newRecordedInformer(t, NewSharedIndexInformer)
			var mu sync.Mutex
			indexed, handled := map[string]any{}, map[string]any{}
			calls := 0
			byName := func(obj any) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				indexed[obj.(*corev1.Pod).Name] = obj
				return []string{obj.(*corev1.Pod).Labels["v"]}, nil
			}
			check.NoError(t, s.informer.AddIndexers(cache.Indexers{"v": byName}))
			handle := func(obj any) {
				mu.Lock()
				defer mu.Unlock()
				handled[obj.(*corev1.Pod).Name] = obj
				if handlers == 1 { // two get one value, perhaps while the function runs for another one
					obj.(*corev1.Pod).Labels["v"] = "scribbled" // forbidden; the index keeps the old label
				}
			}
			check.NoError(t, s.informer.RemoveEventHandler(s.registration))
			for i := range n {
				s.source.Add(pod(fmt.Sprint("p", i), fmt.Sprint(i%5)))
			}
			var registrations []interface{ HasSynced() bool }
			for range handlers {
				reg, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc:    handle,
					UpdateFunc: func(_, obj any) { handle(obj) },
				})
				check.NoError(t, err)
				registrations = append(registrations, reg)
			}
			run(t, s.informer)
			synced(t, registrations...)
			found := func(v string) int {
				objects, err := s.informer.GetIndexer().IndexKeys("v", v)
				check.NoError(t, err)
				return len(objects)
			}
			check.Equal(t, found("3"), n/5, "found")
			mu.Lock()
			if calls != n || len(handled) != n {
				t.Errorf("%d calls for %d objects, %d of which were handled", calls, n, len(handled))
			}
			for key, obj := range handled {
				if indexed[key] != obj && handlers == 1 {
					t.Errorf("%s was decoded for the index once more", key)
				}
			}
			mu.Unlock()
		})
	}
}

// TestBlockedIndexFunction checks that the handler receives a copy of an object while a blocked
// index function still reads the object.
func TestBlockedIndexFunction(t *testing.T) {
	s := newRecordedInformer(t, NewSharedIndexInformer)
	looking, release := make(chan any, 1), make(chan struct{})
	check.NoError(t, s.informer.AddIndexers(cache.Indexers{"blocks": func(obj any) ([]string, error) {
		looking <- obj
		<-release
		return nil, nil
	}}))
	handed := make(chan any, 2)
	register(t, s.informer, cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { handed <- obj }})
	check.NoError(t, s.informer.RemoveEventHandler(s.registration))
	s.source.Add(pod("a", "1"))
	run(t, s.informer)
	seen := <-looking
	obj := <-handed
	if obj == seen || show(obj) != show(seen) {
		t.Errorf("the function looks at %p, the handler was handed %p", seen, obj)
	}
	close(release)
}

// TestIndexFunctionThatReads checks that an index function may read the informer's store and its
// other indexes while handlers receive objects.
func TestIndexFunctionThatReads(t *testing.T) {
	const n = 60
	for _, opts := range []Options{{}, {PrivateCopies: true}, {DetectMutation: true}, {ShareDecoded: true}} {
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			s := newRecordedInformer(t, withOptions(opts))
			indexer := s.informer.GetIndexer()
			byLabel := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["v"]}, nil }
			check.NoError(t, s.informer.AddIndexers(cache.Indexers{"plain": byLabel, "reads": func(obj any) ([]string, error) {
				values, err := byLabel(obj)
				if err == nil {
					_, _, err = indexer.Get(obj)
				}
				if err == nil {
					_, err = indexer.ByIndex("plain", values[0])
				}
				_ = indexer.List()
				return values, err
			}}))
			for range 2 {
				if _, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
					if _, err := indexer.ByIndex("reads", "3"); err != nil {
						t.Error(err)
					}
				}}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				s.source.Add(pod(fmt.Sprintf("p%02d", i), fmt.Sprint(i%5)))
			}
			runSynced(t, s.informer)
			found, err := indexer.ByIndex("reads", "3")
			if err != nil || len(found) != n/5 {
				t.Fatalf("%d found (%v), want %d", len(found), err, n/5)
			}
			second, err := indexer.ByIndex("reads", "3")
			if err != nil || len(second) != len(found) {
				t.Fatalf("%d found the second time (%v), want %d", len(second), err, len(found))
			}
			for i := range found {
				check.Equal(t, found[i].(*corev1.Pod).Name, fmt.Sprintf("p%02d", 3+5*i), "%d", i)
				if opts.PrivateCopies && found[i] == second[i] {
					t.Errorf("%d is the same object the second time", i)
				}
			}
		})
	}
}
