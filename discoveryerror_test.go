package weir_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
)

// TestDiscoveryErrors: Err immediately returns the server's answer to the discovery of a kind, and
// the informer does not ask again before the time that the answer names.
func TestDiscoveryErrors(t *testing.T) {
	refuse := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			http.Error(w, "not now", code)
		}
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"too many requests": {refuse(http.StatusTooManyRequests), weir.ErrTooManyRequests},
		"unavailable":       {refuse(http.StatusServiceUnavailable), weir.ErrServer},
		"malformed":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"resources":[{`)) }, weir.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/version" {
					_, _ = w.Write([]byte(`{"major":"1","minor":"36"}`))
					return
				}
				asked.Add(1)
				tc.answer(w, r)
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			inf, stop := start[*Widget](t, ctx, &rest.Config{Host: server.URL}, weir.Options{Scheme: widgetScheme()})
			defer stop()
			if err := inf.WaitForErr(ctx); !errors.Is(err, tc.want) {
				t.Errorf("the error is %v", err)
			}
			if n := asked.Load(); n != 1 && tc.want != weir.ErrMalformed {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
