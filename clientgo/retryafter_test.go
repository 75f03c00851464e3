package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestBrokenConnection checks that a broken connection is reported immediately and with its cause,
// although client-go's REST client would repeat a LIST ten times, and return an empty WATCH.
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

// asks are the requests that a reflector sends.
func (l *listWatch) asks(ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"newest": func() error { _, err := l.NewestVersion(ctx, "100"); return err },
		"list":   func() error { _, err := l.List(ctx, source.ListOptions{}); return err },
		"watch":  func() error { _, err := l.Watch(ctx, source.WatchOptions{}); return err },
	}
}

// TestRetryAfterIsHeardAtOnce checks that a refusal with Retry-After is reported immediately,
// although client-go's REST client would repeat the request ten times before it returns it.
func TestRetryAfterIsHeardAtOnce(t *testing.T) {
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
