package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// program is a program with a process function, such as CoreDNS: Process writes to the store that
// the Queue has as its KnownObjects.
type program struct {
	*recorder
	store     cache.Store
	onProcess func(cache.Deltas) error // called first; may be nil
}

func newProgram() *program {
	return &program{newRecorder(), cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc), nil}
}

func (p *program) process(obj any, initial bool) error {
	if p.onProcess != nil {
		if err := p.onProcess(obj.(cache.Deltas)); err != nil {
			return err
		}
	}
	for _, d := range obj.(cache.Deltas) {
		if initial {
			p.note("%s %s initial", d.Type, show(d.Object))
		} else {
			p.note("%s %s", d.Type, show(d.Object))
		}
		change := p.store.Add
		if d.Type == cache.Deleted {
			change = p.store.Delete
		}
		if err := change(d.Object); err != nil {
			return err
		}
	}
	return nil
}

// controllers contains the ways to run a program's process function. All of them must behave alike.
var controllers = map[string]func(c *cache.Config, known cache.KeyListerGetter) cache.Controller{
	"client-go": func(c *cache.Config, known cache.KeyListerGetter) cache.Controller {
		//lint:ignore SA1019 the oldest client-go lacks its replacement
		c.Queue = cache.NewRealFIFO(cache.MetaNamespaceKeyFunc, known, nil)
		c.FullResyncPeriod = cmp.Or(c.FullResyncPeriod, noResync)
		return cache.New(c)
	},
	"client-go's RealFIFO": func(c *cache.Config, known cache.KeyListerGetter) cache.Controller {
		//lint:ignore SA1019 the oldest client-go lacks its replacement
		c.Queue = cache.NewRealFIFO(cache.MetaNamespaceKeyFunc, known, nil)
		return New(c)
	},
	"client-go's DeltaFIFO": func(c *cache.Config, known cache.KeyListerGetter) cache.Controller {
		c.Queue = cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KnownObjects: known, EmitDeltaTypeReplaced: true})
		return New(c)
	},
	"RealFIFO": func(c *cache.Config, known cache.KeyListerGetter) cache.Controller {
		c.Queue = NewRealFIFO(cache.MetaNamespaceKeyFunc, known, nil)
		return New(c)
	},
	"DeltaFIFO with client-go's New": func(c *cache.Config, known cache.KeyListerGetter) cache.Controller {
		c.Queue = NewRealFIFO(cache.MetaNamespaceKeyFunc, known, nil)
		c.FullResyncPeriod = cmp.Or(c.FullResyncPeriod, noResync)
		return cache.New(c)
	},
}

// runController runs a controller until the test ends or stop is called.
func runController(t *testing.T, c cache.Controller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.RunWithContext(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// hasChecker reports whether a Controller has a HasSyncedChecker, as since client-go 0.36. Before
// that, HasSynced of client-go's blocks while the process function runs.
func hasChecker(c cache.Controller) bool {
	return reflect.ValueOf(c).MethodByName("HasSyncedChecker").IsValid()
}

// checkerDone reports whether the HasSyncedChecker of a Controller is done. It uses reflection,
// because client-go has HasSyncedChecker since 0.36.
func checkerDone(c cache.Controller) bool {
	if !hasChecker(c) {
		return c.HasSynced()
	}
	done := reflect.ValueOf(c).MethodByName("HasSyncedChecker").Call(nil)[0].MethodByName("Done").Call(nil)[0].Interface().(<-chan struct{})
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TestController compares what a process function receives, with client-go's Controller and with
// Weir's: a first list, events, a relist and a resync.
func TestController(t *testing.T) {
	silent(t)
	for name, newController := range controllers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProgram()
				gate := make(chan struct{})
				p.onProcess = func(d cache.Deltas) error {
					if <-gate; len(d) == 1 && show(d[0].Object) == "d/e@14 v=1" {
						return errors.New("refused") // the error has no effect
					}
					return nil
				}
				lists := []*corev1.PodList{podList("10", podAt("5", "a", "1"), podAt("6", "b", "1")), podList("30", podAt("12", "a", "2"))}
				lw := newStory(func(n int) (runtime.Object, error) { return lists[min(n, 1)].DeepCopy(), nil })
				var resyncs atomic.Bool
				c := newController(&cache.Config{
					ListerWatcher: lw, ObjectType: &corev1.Pod{}, Process: p.process, FullResyncPeriod: time.Minute,
					ShouldResync: func() bool { return resyncs.CompareAndSwap(true, false) },
				}, p.store)
				if c.HasSynced() || checkerDone(c) || c.LastSyncResourceVersion() != "" {
					t.Errorf("before Run: synced %v, at %q", c.HasSynced(), c.LastSyncResourceVersion())
				}
				stop := runController(t, c)
				synctest.Wait() // the process function blocks in the first object
				if hasChecker(c) && checkerDone(c) {
					t.Error("synced before the process function has received the whole list")
				}
				close(gate)
				w := <-lw.watches
				synctest.Wait()
				if !c.HasSynced() || !checkerDone(c) || c.LastSyncResourceVersion() != "10" {
					t.Errorf("after the list: synced %v, at %q", c.HasSynced(), c.LastSyncResourceVersion())
				}
				for _, send := range []func(){
					func() { w.Add(podAt("11", "c", "1")) }, func() { w.Modify(podAt("12", "a", "2")) },
					func() { w.Delete(podAt("13", "b", "1")) }, func() { w.Add(podAt("14", "e", "1")) },
					func() { resyncs.Store(true); time.Sleep(61 * time.Second) },
				} {
					send()
					synctest.Wait()
				}
				lines := p.all()
				check.Equal(t, len(lines), 7, "calls")
				slices.Sort(lines[5:]) // a resync has no order
				w.Error(statusOf(apierrors.NewResourceExpired("too old")))
				<-lw.watches
				synctest.Wait()
				check.Equal(t, c.LastSyncResourceVersion(), "30", "the version after the relist")
				relist := p.all()[7:]
				slices.Sort(relist) // a DeltaFIFO reports deletions last, and a RealFIFO first
				check.Equal(t, strings.Join(append(lines, relist...), "\n"), strings.Join([]string{
					"Replaced d/a@5 v=1 initial", "Replaced d/b@6 v=1 initial", "Added d/c@11 v=1", "Updated d/a@12 v=2", "Deleted d/b@13 v=1",
					"Sync d/a@12 v=2", "Sync d/c@11 v=1", "Deleted tombstone d/c d/c@11 v=1", "Replaced d/a@12 v=2",
				}, "\n"), "calls")
				stop()
			})
		})
	}
}

// TestControllerPanic checks that Process receives the next object a second after a panic if
// utilruntime.ReallyCrash is false, and that RunWithContext panics otherwise.
func TestControllerPanic(t *testing.T) {
	silent(t)
	for name, newController := range controllers {
		setup := func() (*program, *story, cache.Controller) {
			p := newProgram()
			p.onProcess = func(d cache.Deltas) error {
				if strings.HasPrefix(show(d[0].Object), "d/a") {
					panic("a fault of the program")
				}
				return nil
			}
			lw := newStory(func(int) (runtime.Object, error) {
				return podList("10", podAt("5", "a", "1"), podAt("6", "b", "1")), nil
			})
			return p, lw, newController(&cache.Config{ListerWatcher: lw, ObjectType: &corev1.Pod{}, Process: p.process}, p.store)
		}
		t.Run(name+", survived", func(t *testing.T) {
			survive(t)
			synctest.Test(t, func(t *testing.T) {
				p, lw, c := setup()
				stop := runController(t, c)
				time.Sleep(999 * time.Millisecond)
				check.Equal(t, len(p.all()), 0, "calls in the first second")
				time.Sleep(2 * time.Second)
				<-lw.watches
				check.Equal(t, strings.Join(p.all(), "\n"), "Replaced d/b@6 v=1 initial", "calls")
				check.Equal(t, c.HasSynced(), true, "synced")
				stop()
			})
		})
		t.Run(name+", propagated", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, c := setup()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				func() {
					defer func() { check.Equal(t, fmt.Sprint(recover()), "a fault of the program", "the panic") }()
					c.RunWithContext(ctx)
				}()
				check.Equal(t, time.Since(began), 0, "the time until the panic")
			})
		})
	}
}

// TestControllerRunTwice checks that a second Run returns immediately. The Config has no Queue.
func TestControllerRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lw := newStory(func(int) (runtime.Object, error) { return podList("10", podAt("5", "a", "1")), nil })
		p := newProgram()
		c := New(&cache.Config{ListerWatcher: lw, ObjectType: &corev1.Pod{}, Process: p.process})
		stop := runController(t, c)
		<-lw.watches
		c.Run(nil)
		stop()
		check.Equal(t, strings.Join(p.all(), "\n"), "Replaced d/a@5 v=1 initial", "calls")
	})
}

// TestInformerConstructors checks the informers with one handler: what the handler receives, and
// that HasSynced waits for the handler.
func TestInformerConstructors(t *testing.T) {
	labeled := func(obj any) (any, error) { obj.(*corev1.Pod).Labels["v"] = "t"; return obj, nil }
	byNode := cache.Indexers{"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }}
	type newInformer func(cache.ListerWatcher, cache.ResourceEventHandler) (cache.Store, cache.Controller)
	for name, build := range map[string]newInformer{
		"client-go, NewInformer": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			//lint:ignore SA1019 programs call it
			return cache.NewInformer(lw, &corev1.Pod{}, noResync, h)
		},
		"NewInformer": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewInformer(lw, &corev1.Pod{}, 0, h)
		},
		"NewIndexerInformer": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewIndexerInformer(lw, &corev1.Pod{}, 0, h, byNode)
		},
		"client-go, NewTransformingInformer": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			//lint:ignore SA1019 programs call it
			return cache.NewTransformingInformer(lw, &corev1.Pod{}, noResync, h, labeled)
		},
		"NewTransformingInformer": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewTransformingInformer(lw, &corev1.Pod{}, 0, h, labeled)
		},
		"NewTransformingIndexerInformer": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewTransformingIndexerInformer(lw, &corev1.Pod{}, 0, h, byNode, labeled)
		},
		"NewInformerWithOptions": func(lw cache.ListerWatcher, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
			return NewInformerWithOptions(cache.InformerOptions{ListerWatcher: lw, ObjectType: &corev1.Pod{}, Handler: h, Indexers: byNode, MinWatchTimeout: time.Hour})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lw := newStory(func(int) (runtime.Object, error) { return podList("10", podAt("5", "a", "1")), nil })
				calls, gate := newRecorder(), make(chan struct{})
				store, c := build(lw, cache.ResourceEventHandlerDetailedFuncs{
					AddFunc: func(obj any, initial bool) { <-gate; calls.OnAdd(obj, initial) }, UpdateFunc: calls.OnUpdate, DeleteFunc: calls.OnDelete,
				})
				check.Equal(t, c.HasSynced() || checkerDone(c), false, "synced before Run")
				stop := runController(t, c)
				w := <-lw.watches
				synctest.Wait()
				check.Equal(t, hasChecker(c) && (c.HasSynced() || checkerDone(c)), false, "synced before the handler has returned")
				close(gate)
				synctest.Wait()
				check.Equal(t, checkerDone(c) && c.HasSynced(), true, "synced")
				check.Equal(t, c.LastSyncResourceVersion(), "10", "version")
				v := map[bool]string{true: "t", false: "1"}[strings.Contains(name, "Transforming")]
				check.Equal(t, shown(store.List()), "d/a@5 v="+v, "the store")
				w.Delete(podAt("11", "a", v))
				synctest.Wait()
				check.Equal(t, strings.Join(calls.all(), "\n"), "add d/a@5 v="+v+" initial\ndelete d/a@11 v="+v, "calls")
				if indexer, ok := store.(cache.Indexer); ok && strings.Contains(name, "Indexer") {
					check.Equal(t, len(indexer.GetIndexers()), 1, "indexers")
				}
				stop()
			})
		})
	}
}

// TestControllerCaptured runs a Controller without a Queue on a server and checks that it captures
// the responses.
func TestControllerCaptured(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 300})
	p := newProgram()
	c := New(&cache.Config{ListerWatcher: podsOf(capturing(server.Config())), ObjectType: &corev1.Pod{}, Process: p.process})
	stop := runController(t, c)
	eventually(t, c.HasSynced)
	stop()
	check.Equal(t, len(p.store.ListKeys()), 300, "objects")
	if c.(*queueController).reflector.stats.BodyBytes.Load() == 0 {
		t.Error("not captured")
	}
}
