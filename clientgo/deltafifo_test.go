package clientgo

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestControllerBackpressure checks that a Controller with a Queue of this package reads no further
// events while the process function blocks, and that it stops meanwhile.
func TestControllerBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch.NewFake() // without a buffer
		lw := &cache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return podList("10"), nil },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return w, nil },
		}
		gate := make(chan struct{})
		p := newProgram()
		p.onProcess = func(cache.Deltas) error { <-gate; return nil }
		stop := runController(t, New(&cache.Config{ListerWatcher: lw, ObjectType: &corev1.Pod{}, Process: p.process, Queue: NewDeltaFIFO(nil, p.store)}))
		var sent atomic.Int64
		go func() {
			for i := range 1000 {
				w.Add(podAt(fmt.Sprint(11+i), fmt.Sprint("p", i), "1"))
				sent.Add(1)
			}
		}()
		synctest.Wait()
		if n := sent.Load(); n > 1 {
			t.Errorf("%d events were read while the process function blocked", n)
		}
		gate <- struct{}{}
		synctest.Wait()
		check.Equal(t, len(p.all()), 1, "calls")
		close(gate)
		p.waitCount(t, 1000)
		stop()
	})
}

// TestProcessorModel passes random lists, events and failures to a processor and compares the
// program's store with a model of the server. No live object may be deleted.
func TestProcessorModel(t *testing.T) {
	for _, withKnown := range []bool{true, false} {
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 0))
			p := newProgram()
			opts := cache.DeltaFIFOOptions{EmitDeltaTypeReplaced: seed%2 == 0}
			if withKnown {
				opts.KnownObjects = p.store
			}
			s := &processor{fifo: NewDeltaFIFOWithOptions(opts), process: p.process, context: t.Context(), keys: map[string]struct{}{}}
			server, version := map[string]*corev1.Pod{}, 0
			change := func() (watch.EventType, *corev1.Pod) {
				version++
				name := fmt.Sprint("p", r.IntN(6))
				was := server[name]
				is := podAt(fmt.Sprint(version), name, fmt.Sprint(version))
				switch {
				case was == nil:
					server[name] = is
					return watch.Added, is
				case r.IntN(2) == 0:
					server[name] = is
					return watch.Modified, is
				}
				delete(server, name)
				return watch.Deleted, is
			}
			for range r.IntN(8) {
				change()
			}
			for attempts := r.IntN(3); ; attempts-- { // first lists, of which only the last one is complete
				s.BeginList()
				listed := slices.Collect(maps.Values(server))
				if attempts > 0 {
					listed = listed[:r.IntN(len(listed)+1)]
				}
				for _, pod := range listed {
					check.NoError(t, s.AddListed(pod))
				}
				if attempts <= 0 {
					break
				}
				for range r.IntN(4) {
					change()
				}
			}
			check.Equal(t, s.fifo.HasSynced(), false, "seed %d: synced before the end of the list", seed)
			check.NoError(t, s.EndList(fmt.Sprint(version)))
			check.Equal(t, s.fifo.HasSynced(), true, "seed %d: synced", seed)
			for range 30 {
				switch r.IntN(6) {
				case 0: // a relist after missed changes
					for range r.IntN(5) {
						change()
					}
					var list []any
					for _, pod := range server {
						list = append(list, pod)
					}
					check.NoError(t, s.Replace(list, ""))
				case 1:
					check.NoError(t, s.Resync())
				default:
					switch event, pod := change(); event {
					case watch.Added:
						check.NoError(t, s.Add(pod))
					case watch.Modified:
						check.NoError(t, s.Update(pod))
					default:
						check.NoError(t, s.Delete(pod))
					}
				}
				var want []any
				for _, pod := range server {
					want = append(want, pod)
				}
				if got := shown(p.store.List()); got != shown(want) {
					t.Fatalf("seed %d, known objects %v: the program has\n%s\nwant\n%s", seed, withKnown, got, shown(want))
				}
			}
		}
	}
}

// TestDeltaFIFOAdd checks that Process receives objects that the program itself adds to the Queue,
// before New and while the Controller runs, and also from Process.
func TestDeltaFIFOAdd(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			source := newFakeSource(t)
			source.Add(pod("a", "1"))
			p := newProgram()
			fifo := NewDeltaFIFO(nil, nil)
			if known {
				fifo = NewDeltaFIFO(nil, p.store)
			}
			check.NoError(t, fifo.Add(podAt("1", "a", "1")))
			p.onProcess = func(d cache.Deltas) error {
				if d[0].Object.(*corev1.Pod).Name == "b" {
					return fifo.Add(podAt("1", "c", "1"))
				}
				return nil
			}
			stop := runController(t, New(&cache.Config{ListerWatcher: source, ObjectType: &corev1.Pod{}, Process: p.process, Queue: fifo}))
			synctest.Wait()
			check.Equal(t, slices.Contains(p.all(), "Added d/a@1 v=1"), true, "the object that was added before New")
			check.NoError(t, fifo.Update(podAt("2", "b", "1")))
			synctest.Wait()
			check.Equal(t, fmt.Sprint(p.all()[len(p.all())-2:]), "[Updated d/b@2 v=1 Added d/c@1 v=1]")
			stop()
		})
	}
}
