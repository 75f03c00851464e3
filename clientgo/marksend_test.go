package clientgo

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestMarkBecomesLimit checks that the first list is complete if the server used the test's number
// as a limit and the ListerWatcher drops continue tokens, of requests or of responses.
func TestMarkBecomesLimit(t *testing.T) {
	wrapped.Store(true)
	server := serve(t, apiserver.Options{Pods: 2000})
	cfg, seen := marklessServer(t, server.Config(), nil)
	pods := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("")
	for name, test := range map[string]struct{ ofRequests, ofResponses bool }{"requests": {true, false}, "responses": {false, true}} {
		t.Run(name, func(t *testing.T) {
			lw := withoutContexts(pods, nil)
			//lint:ignore SA1019 older generated code sets it
			lw.ListFunc = func(o metav1.ListOptions) (runtime.Object, error) {
				if test.ofRequests {
					o.Continue = ""
				}
				list, err := pods.List(context.TODO(), o)
				if err == nil && test.ofResponses {
					list.Continue, list.RemainingItemCount = "", nil
				}
				return list, err
			}
			before := len(seen.get())
			l := newListWatch(lw, newResponseMatcher(&corev1.Pod{}, nil), &source.Stats{}, false)
			for _, requests := range []int{2, 3} {
				list, err := l.List(t.Context(), metav1.ListOptions{})
				check.NoError(t, err)
				n, captured := countItems(t, list)
				check.Equal(t, n, 2000, "pods")
				check.Equal(t, captured, false, "captured")
				check.Equal(t, len(seen.get())-before, requests, "requests")
			}
		})
	}
}

// TestMarksEnd checks that a server receives at most one mark of each verb if a ListerWatcher
// changes to a client whose transport is not wrapped, also if this client first fails.
func TestMarksEnd(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil))
	for name, fails := range map[string]bool{"succeeds": false, "fails": true} {
		t.Run(name, func(t *testing.T) {
			var seen limits
			plain := rest.CopyConfig(server.Config())
			plain.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
					if seen.add(req.URL.Query().Get("limit")); fails && len(seen.get())%2 == 1 {
						return nil, errors.ErrUnsupported
					}
					return next.RoundTrip(req)
				})
			})
			l := contextlessListWatch(capturing(server.Config()))
			after := newListWatch(withoutContexts(kubernetes.NewForConfigOrDie(plain).CoreV1().ConfigMaps("one"), nil), l.matcher, l.stats, false)
			for _, call := range []func() error{
				func() error {
					list, err := l.List(t.Context(), metav1.ListOptions{})
					if err == nil {
						check.NoError(t, list.Close())
					}
					return err
				},
				func() error {
					w, err := l.Watch(t.Context(), metav1.ListOptions{})
					if err == nil {
						check.NoError(t, w.Close())
					}
					return err
				},
				func() error { _, err := l.NewestVersion(t.Context(), metav1.ListOptions{}); return err },
			} {
				before := l.lw
				l.markings[verbList].Store(byMark)
				l.markings[verbWatch].Store(byMark)
				check.NoError(t, call())
				l.lw, seen.all = after.lw, nil
				if err := call(); (err != nil) != fails {
					t.Errorf("the first call ended with %v", err)
				}
				for range 2 {
					if err := call(); err != nil && !fails {
						t.Error(err)
					}
				}
				marked := slices.DeleteFunc(seen.get(), func(limit string) bool { n, _ := strconv.Atoi(limit); return n <= largestLimit })
				check.Equal(t, len(marked), 1, "marks that the server has received")
				l.lw = before
			}
		})
	}
}
