//go:build !weir_safe

package clientgo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cachetest "k8s.io/client-go/tools/cache/testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/testing/check"
)

var bothShadows = map[string]Shadow{"weir is the shadow": ShadowWeir, "client-go is the shadow": ShadowClientGo}

// tampering is a ListerWatcher whose watches send what a function makes of each event. The function
// receives a copy of the object.
type tampering struct {
	cache.ListerWatcher
	tamper func(watch.Event) []watch.Event
}

func (f tampering) Watch(o metav1.ListOptions) (watch.Interface, error) {
	//lint:ignore SA1019 a fake ListerWatcher needs no context
	all, err := f.ListerWatcher.Watch(o)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	w := watch.NewProxyWatcher(events)
	go func() {
		<-w.StopChan()
		all.Stop()
	}()
	go func() {
		defer close(events)
		for e := range all.ResultChan() {
			e.Object = e.Object.DeepCopyObject()
			for _, e := range f.tamper(e) {
				select {
				case events <- e:
				case <-w.StopChan():
				}
			}
		}
		w.Stop()
	}()
	return w, nil
}

// shadowFaults contains ways in which one of the informers receives wrong events, by the kind of
// the difference that must be found.
var shadowFaults = map[string]func(watch.Event) []watch.Event{
	"missed version": func(e watch.Event) []watch.Event {
		if e.Object.(*corev1.Pod).Labels["v"] == "lost" {
			return nil
		}
		return []watch.Event{e}
	},
	"missed deletion": func(e watch.Event) []watch.Event {
		if e.Type == watch.Deleted {
			return nil
		}
		return []watch.Event{e}
	},
	"content": func(e watch.Event) []watch.Event {
		if p := e.Object.(*corev1.Pod); p.Labels["v"] == "changed" {
			p.Spec.NodeName = "another"
		}
		return []watch.Event{e}
	},
	"order": func(e watch.Event) []watch.Event {
		if p := e.Object.(*corev1.Pod); p.Labels["v"] == "after" {
			before := p.DeepCopy()
			before.ResourceVersion, before.Labels["v"] = "2", "1"
			return []watch.Event{e, {Type: watch.Modified, Object: before}}
		}
		return []watch.Event{e}
	},
}

// changes are the changes that reveal the faults.
func changes(source *cachetest.FakeControllerSource) {
	source.Modify(pod("a", "2"))
	source.Modify(pod("a", "lost"))
	source.Modify(pod("b", "changed"))
	time.Sleep(time.Second) // until the fields of the changed object are compared
	source.Modify(pod("b", "after"))
	source.Delete(pod("c", "1"))
	source.Modify(pod("b", "3")) // without it, Weir's informer would soon list again, and so find out
}

// TestShadowFaults makes one of the informers receive a wrong event. The difference must be in Err
// and in the log, with the key and the paths of fields but no values, within 6 minutes and not
// within 20 seconds. The program's handler must receive what the serving informer receives.
func TestShadowFaults(t *testing.T) {
	for shadowName, mode := range bothShadows {
		for kind, tamper := range shadowFaults {
			for at := range 2 {
				if kind == "order" && side(at) == weirSide {
					continue // Weir's informer lists again instead of delivering the older version
				}
				t.Run(fmt.Sprintf("%s/%s of %s", shadowName, kind, side(at)), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						log := captureLog(t)
						source := cachetest.NewFakeControllerSource()
						defer source.Shutdown()
						for _, name := range []string{"a", "b", "c"} {
							source.Add(pod(name, "1"))
						}
						lws := [2]cache.ListerWatcher{source, source}
						lws[at] = tampering{source, tamper}
						p := informerFields{lw: lws[weirSide], example: &corev1.Pod{}, resync: noResync}
						inf := newShadowed(p.original(&Options{}), p, "", Options{Shadow: mode})
						theirs := map[Shadow]cache.SharedIndexInformer{ShadowWeir: inf.SharedIndexInformer, ShadowClientGo: inf.shadow}[mode]
						lw, _ := private.Field(informerStruct(theirs), "listerWatcher")
						lw.Set(reflect.ValueOf(lws[clientGoSide]))
						calls := observe(t, inf)
						stop := run(t, inf)
						time.Sleep(time.Minute)
						check.NoError(t, Err(inf))
						calls.waitCount(t, 3)
						changes(source)
						time.Sleep(20 * time.Second)
						check.NoError(t, Err(inf))
						time.Sleep(6 * time.Minute)
						err := Err(inf)
						if !errors.Is(err, ErrShadow) || !strings.Contains(err.Error(), kind+" of d/") {
							t.Errorf("Err: %v", err)
						}
						lines := log.containing(`"difference"="` + kind + `"`)
						if len(lines) == 0 || kind == "content" && (!strings.Contains(lines[0], "spec.nodeName") || strings.Contains(lines[0], "another")) {
							t.Errorf("log: %q", log.containing("differ"))
						}
						stop()
						if len(log.containing("Compared an informer")) == 0 {
							t.Error("no line states the evidence")
						}
					})
				})
			}
		}
	}
}

// TestShadowCalm runs random changes, floods, and handlers that are added, removed, slow or
// resynced. There must be no difference, and everything must have been compared. It breaks no
// watch: a FakeControllerSource loses its history then, so that an informer may miss changes.
func TestShadowCalm(t *testing.T) {
	for name, mode := range bothShadows {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { shadowCalm(t, mode, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

func shadowCalm(t *testing.T, mode Shadow, r *rand.Rand) {
	source := cachetest.NewFakeControllerSource()
	defer source.Shutdown()
	inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, time.Minute, nil, Options{Shadow: mode}).(*shadowed)
	var handled atomic.Int64
	slow := cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { handled.Add(1); time.Sleep(997 * time.Millisecond) }}
	register(t, inf, slow)
	stop := run(t, inf)
	exists := map[string]int{}
	var late []cache.ResourceEventHandlerRegistration
	for step := range 3000 {
		name := fmt.Sprint("p", r.IntN(20))
		p := pod(name, fmt.Sprint(step))
		p.UID = types.UID(fmt.Sprint(name, "-", exists[name]/2))
		there := exists[name]%2 == 1
		switch {
		case !there:
			exists[name]++
			p.UID = types.UID(fmt.Sprint(name, "-", exists[name]/2))
			source.Add(p)
		case r.IntN(4) == 0:
			exists[name]++
			source.Delete(p)
		default:
			source.Modify(p)
		}
		switch n := r.IntN(100); {
		case n < 10:
			time.Sleep(time.Duration(r.IntN(40)) * time.Second)
		case n < 12:
			late = append(late, register(t, inf, slow))
		case n < 14 && len(late) > 0:
			check.NoError(t, inf.RemoveEventHandler(late[0]))
			late = late[1:]
		}
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	check.NoError(t, Err(inf))
	if c := inf.counts; c.Objects.Load() < 1000 || c.Events.Load() < 1000 || handled.Load() == 0 {
		t.Errorf("%s; %d handler calls", c, handled.Load())
	}
	for _, p := range inf.pairs {
		check.Equal(t, len(p[0].comparison.open), 0, "open keys")
		check.Equal(t, len(p[0].comparison.settled), len(inf.GetStore().ListKeys()), "settled keys")
	}
	stop()
}

// TestShadowLateHandler checks that a handler that is added after the start is compared too: there
// must be no difference, until the handler of one side loses the changes of an object.
func TestShadowLateHandler(t *testing.T) {
	for name, mode := range bothShadows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent(t)
				source := cachetest.NewFakeControllerSource()
				source.Add(pod("a", "1"))
				source.Add(pod("b", "1"))
				inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, noResync, nil, Options{Shadow: mode}).(*shadowed)
				stop := runSynced(t, inf)
				time.Sleep(time.Minute)
				source.Modify(pod("a", "2"))
				synctest.Wait()
				calls := newRecorder()
				pair := inf.pairs[register(t, inf, calls)]
				calls.waitCount(t, 2)
				source.Modify(pod("a", "3"))
				time.Sleep(10 * time.Minute)
				check.NoError(t, Err(inf))
				check.Equal(t, inf.counts.Events.Load(), 2*3+1, "versions that both handlers of a pair received")
				lost := pair[1-inf.serving]
				check.NoError(t, lost.inf.RemoveEventHandler(lost.registration))
				source.Modify(pod("a", "4"))
				time.Sleep(time.Minute)
				if err := Err(inf); !errors.Is(err, ErrShadow) || !strings.Contains(err.Error(), "missed version of d/a") || !strings.Contains(err.Error(), "recorder") {
					t.Errorf("Err: %v", err)
				}
				stop() // before Shutdown, after which calls of the source would block
				source.Shutdown()
			})
		})
	}
}

// TestShadowServer checks informers of a server: each constructor, a transform, and the capture of
// responses. The content of all versions must be equal.
func TestShadowServer(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 50})
	client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
	for shadowName, mode := range bothShadows {
		for name, make := range allPodInformers {
			t.Run(shadowName+"/"+name, func(t *testing.T) {
				inf := make(capturing(server.Config()), Options{Shadow: mode})
				s, ok := ownerOf(servingOf(inf)).(*shadowed)
				if !ok {
					t.Fatalf("the informer is a %T", inf)
				}
				check.Equal(t, isOriginal(s.SharedIndexInformer), mode == ShadowWeir, "client-go serves")
				check.NoError(t, inf.SetTransform(func(obj any) (any, error) {
					o := obj.(metav1.Object)
					o.SetManagedFields(nil)
					o.SetLabels(map[string]string{"seen": "yes"})
					return obj, nil
				}))
				calls := observe(t, inf)
				runSynced(t, inf)
				check.NoError(t, WaitForSync(t.Context(), inf))
				synced(t, s.shadow)
				made, err := client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new"},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
				check.NoError(t, err)
				check.NoError(t, client.Delete(t.Context(), made.Name, metav1.DeleteOptions{}))
				calls.until(t, "the deletion", func(lines []string) bool { return len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "delete") })
				defer func() {
					if t.Failed() {
						for _, p := range s.pairs {
							for key, k := range p[0].comparison.open {
								t.Log(p[0].name, key, k.last, k.ahead, k.mismatch, k.fields)
							}
						}
						t.Log(s.counts)
					}
				}()
				eventually(t, func() bool {
					open := 0
					for _, p := range s.pairs {
						p[0].comparison.mu.Lock()
						open += len(p[0].comparison.open)
						p[0].comparison.mu.Unlock()
					}
					return s.counts.Objects.Load() >= 51 && s.counts.Events.Load() >= 2*52 && open == 0
				})
			})
		}
	}
}

// TestShadowFails checks that a shadow whose transform panics does not affect the program, and that
// HasSynced does not wait for it.
func TestShadowFails(t *testing.T) {
	for name, mode := range bothShadows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent(t)
				source := cachetest.NewFakeControllerSource()
				defer source.Shutdown()
				source.Add(pod("a", "1"))
				panics := func(any) (any, error) { panic("as a test") }
				inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, noResync, nil, Options{Shadow: mode}).(*shadowed)
				check.NoError(t, inf.shadow.SetTransform(guarded(panics)))
				got := observe(t, inf)
				stop := runSynced(t, inf)
				got.waitCount(t, 1)
				time.Sleep(time.Hour)
				check.Equal(t, len(inf.GetStore().ListKeys()), 1, "objects")
				stop() // before Shutdown, after which calls of the source would block
			})
		})
	}
}

// TestShadowIndexes checks that client-go's informer calls no index functions if it is the shadow:
// the program's index functions need not be safe for concurrent use.
func TestShadowIndexes(t *testing.T) {
	indexers := func() cache.Indexers {
		return cache.Indexers{"name": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Name}, nil }}
	}
	for name, inf := range map[string]cache.SharedIndexInformer{
		"new":     NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, indexers(), Options{Shadow: ShadowClientGo}),
		"adopted": AdoptWithOptions(cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, indexers()), Options{Shadow: ShadowClientGo}),
	} {
		check.NoError(t, inf.AddIndexers(cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc}))
		check.Equal(t, len(inf.GetIndexer().GetIndexers()), 2, name+": indexers")
		check.Equal(t, len(inf.(*shadowed).shadow.GetIndexer().GetIndexers()), 0, name+": indexers of the shadow")
	}
}

// slowSource is a source of objects whose lists take 10 seconds.
type slowSource struct {
	*cachetest.FakeControllerSource
}

func (s slowSource) List(o metav1.ListOptions) (runtime.Object, error) {
	time.Sleep(10 * time.Second)
	return s.FakeControllerSource.List(o)
}

// TestShadowOnRequest checks that GetStore of an adopted factory's informer that is used after the
// start waits for the informer that serves the program, and not for its shadow, which has failed.
func TestShadowOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent(t)
		source := cachetest.NewFakeControllerSource()
		source.Add(pod("a", "1"))
		fails := &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
		}}
		p := informerFields{lw: fails, example: &corev1.Pod{}, resync: noResync}
		inf := newShadowed(p.original(&Options{}), p, "", Options{Shadow: ShadowWeir})
		lw, _ := private.Field(informerStruct(inf.SharedIndexInformer), "listerWatcher")
		lw.Set(reflect.ValueOf(slowSource{source}))
		o := newOnRequest(reflect.TypeFor[*corev1.Pod](), inf.SharedIndexInformer, func() cache.SharedIndexInformer { return inf })
		o.replace = func() {}
		stop := run(t, o)
		synctest.Wait()
		check.Equal(t, len(o.GetStore().ListKeys()), 1, "objects")
		check.ErrorIs(t, inf.weir.engine.Err(), reflector.ErrForbidden)
		stop() // before Shutdown, after which calls of the source would block
		source.Shutdown()
	})
}
