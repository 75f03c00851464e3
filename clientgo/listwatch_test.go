package clientgo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// blocked is a ListerWatcher that ignores contexts. Its List, its probe (a List with limit 1) and
// its Watch each block until the corresponding channel is closed.
type blocked struct {
	list, probe, watch chan struct{} // a call does not block if its channel is nil
	watcher            *watch.FakeWatcher
}

func (b blocked) List(o metav1.ListOptions) (runtime.Object, error) {
	if b.list != nil {
		<-b.list
	}
	if b.probe != nil && o.Limit == 1 {
		<-b.probe
	}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (b blocked) Watch(metav1.ListOptions) (watch.Interface, error) {
	if b.watch != nil {
		<-b.watch
	}
	return b.watcher, nil
}

func (blocked) IsWatchListSemanticsUnSupported() bool { return true }

// quiet turns off the logging of errors in a synctest bubble. client-go's default handler sleeps
// until some time after the last logged error. If a test outside of a bubble has logged an error,
// the handler would sleep for years of the bubble's clock.
func quiet(t *testing.T, inf cache.SharedIndexInformer) {
	t.Helper()
	check.NoError(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
}

// TestStopWhileBlocked stops an informer while a call of its ListerWatcher blocks and ignores its
// context. The informer must stop. If the call later returns a watch, the informer must stop the
// watch too. client-go's informer of version 0.37 waits for such a call of Watch.
func TestStopWhileBlocked(t *testing.T) {
	for name, test := range map[string]struct {
		build constructor
		make  func(gate chan struct{}) blocked
	}{
		"client-go, List": {newClientGo, func(gate chan struct{}) blocked { return blocked{list: gate} }},
		"List":            {NewSharedIndexInformer, func(gate chan struct{}) blocked { return blocked{list: gate} }},
		"Watch":           {NewSharedIndexInformer, func(gate chan struct{}) blocked { return blocked{watch: gate} }},
		"probe":           {NewSharedIndexInformer, func(gate chan struct{}) blocked { return blocked{probe: gate} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				lw := test.make(gate)
				lw.watcher = watch.NewFake()
				inf := test.build(lw, &corev1.Pod{}, 0, cache.Indexers{})
				quiet(t, inf)
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan struct{})
				go func() { defer close(ended); inf.RunWithContext(ctx) }()
				time.Sleep(2 * time.Minute) // long enough for a silent watch to be probed
				cancel()
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Error("not stopped within 10 s")
				}
				close(gate)
				<-ended
				synctest.Wait()
				if lw.watch != nil && !lw.watcher.IsStopped() {
					t.Error("the watch that came late goes on")
				}
			})
		})
	}
}

// TestWatchAfterBlockedProbe lets the List of a probe block. The informer must nevertheless open
// the next watch, and must not call List for another probe before this List returns.
func TestWatchAfterBlockedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		first, second, calls := watch.NewFake(), watch.NewFake(), newRecorder()
		watchers := make(chan watch.Interface, 2)
		watchers <- first
		watchers <- second
		from := blocked{probe: gate}
		var probes atomic.Int32
		lw := &cache.ListWatch{
			ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if o.Limit == 1 {
					probes.Add(1)
				}
				return from.List(o)
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				select {
				case w := <-watchers:
					return w, nil
				default:
					return watch.NewFake(), nil
				}
			},
		}
		inf := NewSharedIndexInformer(noWatchList{lw}, &corev1.Pod{}, 0, nil)
		quiet(t, inf)
		register(t, inf, calls)
		run(t, inf)
		time.Sleep(95 * time.Second)
		first.Stop()
		a := pod("a", "1")
		a.ResourceVersion = "2"
		go second.Add(a)
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines := calls.all(); len(lines) != 1 {
			t.Errorf("told %q", lines)
		}
		time.Sleep(10 * time.Minute)
		check.Equal(t, probes.Load(), 1, "Lists were left behind")
		close(gate)
	})
}

// lateEvent is a RoundTripper that acts as a server whose watches send one event after half an
// hour.
type lateEvent struct{}

func (lateEvent) RoundTrip(req *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	go func() {
		time.Sleep(30 * time.Minute)
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}`+"\n")
		_ = w.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}, nil
}

// TestWatchTimeout uses a ListerWatcher that requests another timeout from the server than the
// timeout that the informer passed to Watch. A watch may last as long as the ListerWatcher's
// timeout, and no longer.
func TestWatchTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		seconds *int64
		want    error
	}{
		"an hour":            {new(int64(3600)), nil},
		"none":               {nil, nil},
		"less than half one": {new(int64(29*60 + 20)), source.ErrStalled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := &rest.Config{Host: "http://none.invalid", Transport: lateEvent{}}
				Wrap(cfg)
				client := kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient()
				lw := cache.NewFilteredListWatchFromClient(client, "pods", "", func(o *metav1.ListOptions) { o.TimeoutSeconds = test.seconds })
				l := newListWatch(lw, newResponseMatcher(&corev1.Pod{}, nil), &source.Stats{}, false)
				w, err := l.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(300))})
				check.NoError(t, err)
				if _, err := w.Next(); !errors.Is(err, test.want) {
					t.Errorf("%v, want %v", err, test.want)
				}
				_ = w.Close()
				time.Sleep(time.Hour) // until the goroutine of RoundTrip has ended
			})
		})
	}
}

// TestFailsWhileCaptured checks when an informer stops capturing. It must stop after two calls of
// List in a row that failed with a capture and succeeded without one. The same holds for Watch.
func TestFailsWhileCaptured(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 3})
	inner := podsOf(capturing(server.Config()))
	errOwn := errors.New("the limit of the ListerWatcher")
	var fail, always bool
	result := func(captured bool) error {
		if fail && (captured || always) {
			return errOwn
		}
		return nil
	}
	l := newListWatch(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListWithContext(ctx, o)
			if err == nil {
				err = result(meta.LenList(list) == 0)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := inner.WatchWithContext(ctx, o)
			if err == nil && result(valueOf[capture](ctx) != nil) != nil {
				source.StopWatch(w)
				return nil, errOwn
			}
			return w, err
		},
	}, newResponseMatcher(&corev1.Pod{}, nil), &source.Stats{}, false)
	for name, ask := range map[string]func(context.Context) error{
		"list": func(ctx context.Context) error {
			list, err := l.List(ctx, metav1.ListOptions{})
			if err == nil {
				err = list.Close()
			}
			return err
		},
		"watch": func(ctx context.Context) error {
			w, err := l.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
			if err == nil {
				err = w.Close()
			}
			return err
		},
	} {
		l.noCapture.Store(false)
		for i, step := range []struct{ fail, always, stops bool }{
			{}, {fail: true}, {}, {fail: true}, {fail: true, always: true}, {fail: true, always: true}, {}, {fail: true}, {fail: true, stops: true},
		} {
			fail, always = step.fail, step.always
			ctx, cancel := context.WithCancel(t.Context())
			if err := ask(ctx); (err != nil) != step.always {
				t.Errorf("%s %d: %v", name, i, err)
			}
			cancel()
			check.Equal(t, l.noCapture.Load(), step.stops, "%s %d: capturing has ended", name, i)
		}
	}
}
