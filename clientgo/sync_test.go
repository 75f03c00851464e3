package clientgo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// silentServer is a RoundTripper that acts as a server that does not answer.
type silentServer struct{}

func (silentServer) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

// TestHeaderTimeout checks that the informer cancels a request whose response does not start within
// headerTimeout, and that Err returns the error.
func TestHeaderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &rest.Config{Host: "http://none.invalid", Transport: silentServer{}}
		Wrap(cfg)
		inf := NewSharedIndexInformer(podsOf(cfg), &corev1.Pod{}, 0, nil)
		run(t, inf)
		time.Sleep(headerTimeout - time.Second)
		synctest.Wait()
		if err := Err(inf); err != nil {
			t.Errorf("too soon: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := Err(inf); !errors.Is(err, source.ErrStalled) {
			t.Errorf("Err is %v", err)
		}
	})
}

// stuckRefusal is a RoundTripper that acts as a server, or a proxy, whose error response stops
// half-way.
type stuckRefusal struct {
	code        int
	contentType string
}

func (r stuckRefusal) RoundTrip(req *http.Request) (*http.Response, error) {
	text, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Fai`)
	}()
	return &http.Response{StatusCode: r.code, Header: http.Header{"Content-Type": {r.contentType}}, Body: text, Request: req}, nil
}

// TestRefusalTimeout checks that the informer cancels a request whose error response does not end,
// and that Err returns the error for the response's status code.
func TestRefusalTimeout(t *testing.T) {
	for _, c := range []struct {
		server stuckRefusal
		want   error
	}{
		{stuckRefusal{http.StatusBadRequest, "application/json"}, reflector.ErrRejected},
		{stuckRefusal{http.StatusOK, "text/html"}, reflector.ErrUnreachable},
	} {
		t.Run(c.server.contentType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := &rest.Config{Host: "http://none.invalid", Transport: c.server}
				Wrap(cfg)
				inf := NewSharedIndexInformer(podsOf(cfg), &corev1.Pod{}, 0, nil)
				run(t, inf)
				time.Sleep(headerTimeout + time.Second)
				synctest.Wait()
				if err := Err(inf); !errors.Is(err, c.want) {
					t.Errorf("Err is %v", err)
				}
			})
		})
	}
}

// otherEncoding is a RoundTripper that acts as a server. It answers LISTs in JSON. It answers
// WATCHes in an encoding that this package cannot read, and sends no events.
type otherEncoding struct{}

func (otherEncoding) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Query().Get("watch") != "" {
		nothing, _ := io.Pipe()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/cbor-seq"}}, Body: nothing, Request: req}, nil
	}
	list := io.NopCloser(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: list, Request: req}, nil
}

// TestWatchInAnotherEncoding checks that the informer does not delay a watch in an encoding that
// only the caller's client may be able to read: Watch returns immediately.
func TestWatchInAnotherEncoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &rest.Config{Host: "http://none.invalid", Transport: otherEncoding{}}
		Wrap(cfg)
		from, took := podsOf(cfg), make(chan time.Duration, 100)
		lw := &cache.ListWatch{ListWithContextFunc: from.ListWithContext, WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			began := time.Now()
			w, err := from.WatchWithContext(ctx, o)
			took <- time.Since(began)
			return w, err
		}}
		run(t, NewSharedIndexInformer(noWatchList{lw}, &corev1.Pod{}, 0, nil))
		if d := <-took; d > time.Second {
			t.Errorf("after %v", d)
		}
	})
}

// TestHandlerSyncsAfterInformer checks that the informer's HasSynced is true as soon as a handler
// has synced.
func TestHandlerSyncsAfterInformer(t *testing.T) {
	for range 100 {
		inf := NewSharedIndexInformer(podSource("1", watch.NewFake()), &corev1.Pod{}, 0, nil)
		reg := register(t, inf, newRecorder())
		stop := run(t, inf)
		synced(t, reg)
		if !inf.HasSynced() {
			t.Fatal("not the informer")
		}
		stop()
	}
}

// TestWrappedTwice checks that the informer captures responses if the config was passed to Wrap
// twice, and sends each request once.
func TestWrappedTwice(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 30})
	inf := NewSharedIndexInformer(podsOf(capturing(capturing(server.Config()))), &corev1.Pod{}, 0, nil).(*informer)
	runSynced(t, inf)
	if n, lists := len(inf.GetStore().ListKeys()), inf.stats.Lists.Load(); n != 30 || lists != 1 || inf.stats.BodyBytes.Load() == 0 {
		t.Errorf("%d pods by %d lists, %d bytes captured", n, lists, inf.stats.BodyBytes.Load())
	}
}

// TestStopReceivesRemainingEvents checks that Close of a watch receives the events that a wrapped
// watch still sends. Otherwise the wrapped watch would block for ever in a send.
func TestStopReceivesRemainingEvents(t *testing.T) {
	inner := watch.NewFake()
	w := watch.Filter(inner, func(e watch.Event) (watch.Event, bool) { return e, true })
	body, err := source.NewObjectWatch(t.Context(), w, source.ExpectedObject{})
	check.NoError(t, err)
	inner.Add(pod("a", "1")) // the filter receives the event and blocks in a send
	check.NoError(t, body.Close())
	// goleak reports the filter's goroutine if it leaks.
}

// TestStopWaitsForHandlers checks that Run returns only after a handler's call has returned, like
// client-go's. Weir must log the name of the handler after a while.
func TestStopWaitsForHandlers(t *testing.T) {
	for maker, construct := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRecordedInformer(t, construct)
				s.source.Add(pod("a", "1"))
				called, returns, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
				register(t, s.informer, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { close(called); <-returns }})
				log := &logLines{}
				ctx, cancel := context.WithCancel(log.withContext(t.Context()))
				go func() { defer close(done); s.informer.RunWithContext(ctx) }()
				<-called
				cancel()
				time.Sleep(time.Minute)
				select {
				case <-done:
					t.Error("Run has returned before the handler")
				default:
				}
				if named := log.containing("cache.ResourceEventHandlerFuncs"); maker == "weir" && len(named) == 0 {
					t.Errorf("the log does not name the handler: %q", log.containing(""))
				}
				close(returns)
				<-done
			})
		})
	}
}
