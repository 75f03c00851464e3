package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// programReflector is what programs call of a Reflector, client-go's or Weir's.
type programReflector interface {
	Run(stop <-chan struct{})
	RunWithContext(ctx context.Context)
	ListAndWatch(stop <-chan struct{}) error
	LastSyncResourceVersion() string
	Name() string
	TypeDescription() string
}

// bothReflectors contains the constructors whose Reflectors must behave alike. The function sets
// ShouldResync unless it is nil.
var bothReflectors = map[string]func(lw cache.ListerWatcher, store cache.ReflectorStore, resync time.Duration, should func() bool) programReflector{
	"client-go": func(lw cache.ListerWatcher, store cache.ReflectorStore, resync time.Duration, should func() bool) programReflector {
		r := cache.NewNamedReflector("pods", lw, &corev1.Pod{}, store, cmp.Or(resync, noResync))
		r.ShouldResync = should
		return r
	},
	"weir": func(lw cache.ListerWatcher, store cache.ReflectorStore, resync time.Duration, should func() bool) programReflector {
		r := NewNamedReflector("pods", lw, &corev1.Pod{}, store, resync)
		r.ShouldResync = should
		return r
	},
}

// story is a ListerWatcher that answers LISTs as a test says. Each watch is a watcher on which the
// test sends events.
type story struct {
	list    func(n int) (runtime.Object, error) // n counts the LISTs from 0
	watches chan *watch.FakeWatcher

	mu      sync.Mutex
	listed  int
	version string // of the last list
}

func newStory(list func(n int) (runtime.Object, error)) *story {
	return &story{list: list, watches: make(chan *watch.FakeWatcher, 100)}
}

func (s *story) List(o metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Limit == 1 { // a probe for the newest version, which only Weir's reflector sends
		return podList(s.version), nil
	}
	list, err := s.list(s.listed)
	if s.listed++; err == nil {
		s.version = list.(metav1.ListMetaAccessor).GetListMeta().GetResourceVersion()
	}
	return list, err
}

func (s *story) Watch(metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 100})
	s.watches <- w
	return w, nil
}

func (*story) IsWatchListSemanticsUnSupported() bool { return true }

func podList(version string, pods ...*corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	return list
}

func bookmarkAt(version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
}

// recordingStore is a store of a program that records its calls and returns the errors that a test
// sets, by the line that it records.
type recordingStore struct {
	*recorder
	errors map[string]error // returned once each
}

func newRecordingStore(errors map[string]error) *recordingStore {
	return &recordingStore{newRecorder(), errors}
}

func (s *recordingStore) call(format string, args ...any) error {
	line := fmt.Sprintf(format, args...)
	s.note("%s", line)
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.errors[line]
	delete(s.errors, line)
	return err
}

func (s *recordingStore) Add(obj any) error    { return s.call("add %s", show(obj)) }
func (s *recordingStore) Update(obj any) error { return s.call("update %s", show(obj)) }
func (s *recordingStore) Delete(obj any) error { return s.call("delete %s", show(obj)) }
func (s *recordingStore) Resync() error        { return s.call("resync") }
func (s *recordingStore) Replace(list []any, version string) error {
	return s.call("replace %s: %s", version, strings.ReplaceAll(shown(list), "\n", ", "))
}
func (s *recordingStore) Bookmark(version string) error { return s.call("bookmark %s", version) }

// runReflector runs a Reflector until the test ends or stop is called.
func runReflector(t *testing.T, r programReflector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.RunWithContext(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// TestReflectorCalls compares the calls of a program's store with client-go's Reflector and with
// Weir's: a list, events, a bookmark, errors of the store, an expired watch and a second list.
func TestReflectorCalls(t *testing.T) {
	silent(t)
	for name, newReflector := range bothReflectors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := []*corev1.PodList{
					podList("10", podAt("5", "a", "1"), podAt("6", "b", "1")), podList("30", podAt("5", "a", "1")),
				}
				lw := newStory(func(n int) (runtime.Object, error) { return lists[min(n, 1)].DeepCopy(), nil })
				store := newRecordingStore(map[string]error{"add d/c@11 v=1": errors.New("refused"), "bookmark 20": errors.New("refused")})
				r := newReflector(lw, store, 0, nil)
				check.Equal(t, r.Name(), "pods", "Name")
				check.Equal(t, r.TypeDescription(), "*v1.Pod", "TypeDescription")
				check.Equal(t, r.LastSyncResourceVersion(), "", "the version before Run")
				stop := runReflector(t, r)
				w := <-lw.watches
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "10", "the version after the list")
				w.Add(podAt("11", "c", "1"))
				w.Modify(podAt("12", "a", "2"))
				w.Delete(podAt("13", "b", "1"))
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "13", "the version after events")
				w.Action(watch.Bookmark, bookmarkAt("20"))
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "20", "the version after a bookmark")
				w.Add(podAt("21", "e", "1"))
				synctest.Wait()
				w.Error(statusOf(apierrors.NewResourceExpired("too old")))
				<-lw.watches
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "30", "the version after the second list")
				stop()
				calls := store.all()
				if name == "client-go" && !slices.Contains(calls, "bookmark 20") {
					calls = slices.Insert(calls, 4, "bookmark 20") // client-go passes bookmarks since 0.36
				}
				check.Equal(t, strings.Join(calls, "\n"), strings.Join([]string{
					"replace 10: d/a@5 v=1, d/b@6 v=1", "add d/c@11 v=1", "update d/a@12 v=2", "delete d/b@13 v=1", "bookmark 20",
					"add d/e@21 v=1", "replace 30: d/a@5 v=1",
				}, "\n"), "calls")
			})
		})
	}
}

// TestReflectorLosesEvent checks that a Reflector does not report the version of an event that it
// could not decode: neither before nor while it lists again.
func TestReflectorLosesEvent(t *testing.T) {
	silent(t)
	for name, newReflector := range bothReflectors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const list = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}`
				const event = `{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"d","name":"a","resourceVersion":"%d"},"spec":%s}}`
				watches := make(chan *io.PipeWriter, 10)
				var lists atomic.Int64
				cfg := &rest.Config{Host: "http://server", ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
				cfg.Transport = roundTripperFunc(func(req *http.Request) (*http.Response, error) {
					resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: req}
					if req.URL.Query().Get("watch") != "" {
						events, send := io.Pipe()
						watches <- send
						resp.Body = events
						return resp, nil
					}
					n := lists.Add(1)
					resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(list, 10*n)))
					if n == 2 {
						resp.StatusCode = http.StatusInternalServerError
					}
					return resp, nil
				})
				store := newRecordingStore(nil)
				r := newReflector(noWatchList{podsOf(capturing(cfg))}, store, 0, nil)
				stop := runReflector(t, r)
				send := <-watches
				_, _ = fmt.Fprintf(send, event, "ADDED", 11, "{}")
				_, _ = fmt.Fprintf(send, event, "MODIFIED", 12, `"no spec"`)
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "11", "the version after the lost event")
				<-watches
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "30", "the version after the list")
				stop()
				check.Equal(t, strings.Join(store.all(), "\n"), "replace 10: \nadd d/a@11 v=\nreplace 30: ", "calls")
			})
		})
	}
}

// TestReflectorReplaceFails checks that a Reflector lists again after Replace has failed, both in
// the first list and in a relist, and that the Reflector stops while it waits.
func TestReflectorReplaceFails(t *testing.T) {
	silent(t)
	for name, newReflector := range bothReflectors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lw := newStory(func(n int) (runtime.Object, error) {
					return podList(fmt.Sprint(10+n), podAt("5", "a", "1")), nil
				})
				refused := errors.New("refused")
				store := newRecordingStore(map[string]error{"replace 10: d/a@5 v=1": refused, "replace 12: d/a@5 v=1": refused, "replace 14: d/a@5 v=1": refused})
				r := newReflector(lw, store, 0, nil)
				stop := runReflector(t, r)
				w := <-lw.watches
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "11", "the version after the first list")
				w.Error(statusOf(apierrors.NewResourceExpired("too old")))
				w = <-lw.watches
				synctest.Wait()
				check.Equal(t, r.LastSyncResourceVersion(), "13", "the version after the relist")
				check.Equal(t, len(store.all()), 4, "calls")
				w.Error(statusOf(apierrors.NewResourceExpired("too old")))
				store.until(t, "the failed Replace", func(lines []string) bool { return len(lines) == 5 })
				synctest.Wait()
				began := time.Now()
				stop() // during the wait after the failure
				check.Equal(t, time.Since(began), 0, "the time to stop")
			})
		})
	}
}

// TestReflectorResync checks when a Reflector calls Resync, and that it lists again after Resync
// has failed.
func TestReflectorResync(t *testing.T) {
	for name, newReflector := range bothReflectors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lw := newStory(func(n int) (runtime.Object, error) { return podList(fmt.Sprint(10 + n)), nil })
				store := newRecordingStore(nil)
				asked := 0
				r := newReflector(lw, store, time.Minute, func() bool { asked++; return asked != 2 })
				stop := runReflector(t, r)
				<-lw.watches
				time.Sleep(3*time.Minute + time.Second)
				synctest.Wait()
				check.Equal(t, strings.Join(store.all(), "\n"), "replace 10: \nresync\nresync", "calls")
				store.mu.Lock()
				store.errors = map[string]error{"resync": errors.New("refused")}
				store.mu.Unlock()
				<-lw.watches
				synctest.Wait()
				check.Equal(t, strings.Join(store.all(), "\n"), "replace 10: \nresync\nresync\nresync\nreplace 11: ", "calls")
				stop()
			})
		})
	}
}

// TestReflectorPanics checks that a Reflector lists again after its store has panicked, if
// utilruntime.ReallyCrash is false.
func TestReflectorPanics(t *testing.T) {
	survive(t)
	silent(t)
	for name, newReflector := range bothReflectors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lw := newStory(func(n int) (runtime.Object, error) { return podList(fmt.Sprint(10 + n)), nil })
				store := &panickingStore{recordingStore: newRecordingStore(nil)}
				stop := runReflector(t, newReflector(lw, store, 0, nil))
				w := <-lw.watches
				w.Add(podAt("11", "a", "1"))
				<-lw.watches
				synctest.Wait()
				check.Equal(t, strings.Join(store.all(), "\n"), "replace 10: \nreplace 11: ", "calls")
				stop()
			})
		})
	}
}

type panickingStore struct{ *recordingStore }

func (panickingStore) Add(any) error { panic("a fault of the program") }

// TestReflectorListFails checks that the watch error handler receives the errors of lists, and that
// ListAndWatch returns the first of them.
func TestReflectorListFails(t *testing.T) {
	var mu sync.Mutex
	var logged []string
	silent(t, func(_ context.Context, err error, _ string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, err.Error())
	})
	for name, newReflector := range bothReflectors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged = nil
				lw := newStory(func(n int) (runtime.Object, error) {
					if n%2 == 0 {
						return nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))
					}
					return podList("10"), nil
				})
				r := newReflector(lw, newRecordingStore(nil), 0, nil)
				stop := runReflector(t, r)
				<-lw.watches
				stop()
				if mu.Lock(); len(logged) != 1 || !strings.Contains(logged[0], "forbidden") {
					t.Errorf("logged %q", logged)
				}
				mu.Unlock()
				ended := make(chan struct{})
				err := r.ListAndWatch(ended)
				if !apierrors.IsForbidden(err) {
					t.Errorf("ListAndWatch returned %v", err)
				}
				go func() { <-lw.watches; close(ended) }()
				if err := r.ListAndWatch(ended); err != nil {
					t.Errorf("ListAndWatch returned %v after its end", err)
				}
			})
		})
	}
}
