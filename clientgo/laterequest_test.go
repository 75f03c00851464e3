package clientgo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// takenWatch is a watch that reports when it is read.
type takenWatch struct {
	watch.Interface
	taken func()
}

func (w takenWatch) ResultChan() <-chan watch.Event {
	w.taken()
	return w.Interface.ResultChan()
}

// TestLateWatch checks that a Watch that returns before it has sent a request, such as one of
// client-go's RetryWatcher, delivers changes, in client-go's informer and Weir's.
func TestLateWatch(t *testing.T) {
	for which, newInformer := range bothConstructors {
		t.Run(which, func(t *testing.T) {
			server := serve(t, apiserver.Options{})
			plain := fill(t, server.Config(), configMap("one", "a", nil))
			maps := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1().ConfigMaps("one")
			lw := listWatchOf(maps)
			lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				taken := make(chan struct{})
				w, err := watchtools.NewRetryWatcherWithContext(ctx, o.ResourceVersion, watchAfter(taken, maps))
				if err != nil {
					return nil, err
				}
				return takenWatch{w, sync.OnceFunc(func() { close(taken) })}, nil
			}
			inf := newInformer(noWatchList{lw}, &corev1.ConfigMap{}, 0, nil)
			calls := observe(t, inf)
			runSynced(t, inf)
			made := create(t, plain, configMap("one", "b", nil))
			calls.wait(t, "add "+show(made))
		})
	}
}

// watchAfter returns a Watcher whose Watch waits until the channel is closed.
func watchAfter(gate <-chan struct{}, maps typedcorev1.ConfigMapInterface) *cache.ListWatch {
	return &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		select {
		case <-gate:
			return maps.Watch(ctx, o)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// TestCaptureEnds checks that a request on the context of a call that has returned receives its
// response, whether it was sent before or after the return.
func TestCaptureEnds(t *testing.T) {
	for _, v := range []verb{verbList, verbWatch} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("watch %v, sent before the end %v", v == verbWatch, before), func(t *testing.T) {
				faults := &apiserver.Faults{}
				server := serve(t, apiserver.Options{Faults: faults})
				fill(t, server.Config(), configMap("one", "a", nil))
				came, hold := make(chan struct{}, 10), make(chan struct{})
				ofMaps := apiserver.Match(map[verb]string{verbList: "list", verbWatch: "watch"}[v], "configmaps")
				faults.Add(apiserver.Rule{Match: func(r *http.Request) bool {
					matches := ofMaps(r)
					if matches {
						came <- struct{}{}
					}
					return matches
				}, Hold: hold})

				maps := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1().ConfigMaps("one")
				c := &capture{verb: v, context: t.Context(), matcher: newResponseMatcher(&corev1.ConfigMap{}, nil)}
				ctx, cancel := context.WithCancel(c.withContext(t.Context()))
				defer cancel()
				if !before {
					c.end()
				}
				got := make(chan string, 1)
				go func() { got <- firstOf(ctx, v, maps) }()
				<-came
				c.end()
				close(hold)
				check.Equal(t, <-got, "a")
				if c.answer != nil {
					t.Error("captured")
				}
			})
		}
	}
}

// firstOf returns the name of the first config map from a LIST or a WATCH, or the error.
func firstOf(ctx context.Context, v verb, maps typedcorev1.ConfigMapInterface) string {
	if v == verbList {
		list, err := maps.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return fmt.Sprintf("an empty list, %v", err)
		}
		return list.Items[0].Name
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	defer w.Stop()
	event, ok := <-w.ResultChan()
	if !ok {
		return "the end of the watch"
	}
	return name(event.Object)
}

// TestLateRequestFails checks that client-go's REST client retries a request that is refused with
// Retry-After, or whose connection breaks, if it is sent on the context of a call that has
// returned. The reflector sees neither.
func TestLateRequestFails(t *testing.T) {
	for name, fail := range map[string]func(*http.Request) (*http.Response, error){
		"refused": func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody, Request: req}, nil
		},
		"broken": func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				cfg := &rest.Config{Host: "http://none.invalid", Transport: roundTripperFunc(func(req *http.Request) (*http.Response, error) {
					if requests++; requests == 1 {
						return fail(req)
					}
					const list = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`
					return &http.Response{
						StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(list)), Request: req,
					}, nil
				})}
				Wrap(cfg)
				var after retryAfter
				ctx := after.withContext(t.Context())
				check.NoError(t, after.restore(nil))
				_, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
				if err != nil || requests != 2 {
					t.Errorf("%d requests, %v", requests, err)
				}
			})
		})
	}
}
