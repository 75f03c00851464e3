package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestBrokenConnection checks that List, Watch and NewestVersion send one request if the connection
// breaks, and return the error with its cause. client-go's REST client would repeat a LIST ten
// times and return an empty WATCH.
func TestBrokenConnection(t *testing.T) {
	t.Run("reset", func(t *testing.T) { brokenConnection(t, "read", syscall.ECONNRESET) })
	t.Run("timeout", func(t *testing.T) { brokenConnection(t, "dial", os.ErrDeadlineExceeded) })
}

func brokenConnection(t *testing.T, op string, why error) {
	var requests atomic.Int32
	cfg := &rest.Config{Host: "http://server", Transport: roundTripperFunc(func(*http.Request) (*http.Response, error) {
		requests.Add(1)
		return nil, &net.OpError{Op: op, Err: why}
	})}
	Wrap(cfg)
	client := kubernetes.NewForConfigOrDie(cfg)
	inner := listWatchOf(client.CoreV1().Pods(""))
	seen := func(err error) {
		check.ErrorIs(t, err, why, "the ListerWatcher gets")
	}
	l := newListWatch(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListWithContext(ctx, o)
			seen(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := inner.WatchWithContext(ctx, o)
			seen(err)
			return w, err
		},
	}, newResponseMatcher(&corev1.Pod{}, nil), &source.Stats{}, false)
	for name, ask := range l.asks(t.Context()) {
		before := requests.Load()
		if err := ask(); !errors.Is(err, why) || !strings.Contains(err.Error(), why.Error()) {
			t.Errorf("%s: %v", name, err)
		}
		check.Equal(t, requests.Load()-before, 1, "%s: requests", name)
	}
}

// asks returns functions, by name. Each function calls one method of l as a reflector does.
func (l *listWatch) asks(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"newest": func() error { _, err := l.NewestVersion(ctx, metav1.ListOptions{ResourceVersion: "100"}); return err },
		"list":   func() error { _, err := l.List(ctx, metav1.ListOptions{}); return err },
		"watch":  func() error { _, err := l.Watch(ctx, metav1.ListOptions{}); return err },
	}
}

// TestRetryAfterIsReturnedImmediately checks that List, Watch and NewestVersion return the error
// after one request if the response has a Retry-After header. client-go's REST client would repeat
// the request ten times.
func TestRetryAfterIsReturnedImmediately(t *testing.T) {
	var requests atomic.Int32
	var header atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Retry-After", header.Load().(string))
		rw.WriteHeader(http.StatusGatewayTimeout)
		json.NewEncoder(rw).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}})
	}))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	Wrap(cfg)
	client := kubernetes.NewForConfigOrDie(cfg)
	defer client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
	l := newListWatch(listWatchOf(client.CoreV1().Pods("")), newResponseMatcher(&corev1.Pod{}, nil), &source.Stats{}, false)
	for asked, want := range map[string]int{"7": 7, "4294967296": math.MaxInt32, "Fri, 31 Dec 9999 23:59:59 GMT": math.MaxInt32} {
		header.Store(asked)
		for name, ask := range l.asks(t.Context()) {
			before := requests.Load()
			err := ask()
			if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != want || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("%s: %v, delay %d, want %d", name, err, seconds, want)
			}
			check.Equal(t, requests.Load()-before, 1, "%s: requests", name)
		}
	}
}

type takenWatch struct {
	watch.Interface
	taken func()
}

func (w takenWatch) ResultChan() <-chan watch.Event {
	w.taken()
	return w.Interface.ResultChan()
}

// TestLateWatch checks that client-go's informer and Weir's receive changes from a Watch that sends
// its request only after it has returned. client-go's RetryWatcher does so.
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

// watchAfter returns a ListWatch whose Watch waits until gate is closed before it sends a request.
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

// TestCaptureEnds sends a request with the context of a List or Watch call, before or after the
// call returns. When the response arrives, the call has returned. The client must receive this
// response, and the informer must not.
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
				ctx, cancel := context.WithCancel(withValue(t.Context(), c))
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

// firstOf returns the name of the first config map of a LIST or WATCH, or a text that describes the
// error.
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

// TestLateRequestFails sends a request with the context of a List or Watch call that has returned.
// The server sends an error with Retry-After, or the connection breaks. client-go's REST client
// must retry the request: the reflector cannot, because it does not receive these errors.
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
				ctx := withValue(t.Context(), &after)
				check.NoError(t, after.restore(nil))
				_, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
				if err != nil || requests != 2 {
					t.Errorf("%d requests, %v", requests, err)
				}
			})
		})
	}
}
