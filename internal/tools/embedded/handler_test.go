package embedded

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestWhole checks that no byte of an answer is sent before the answer is complete, except for a
// watch.
func TestWhole(t *testing.T) {
	for query, want := range map[string]string{"": "", "?watch=0": "", "?watch=true": "two pieces"} {
		answer := httptest.NewRecorder()
		sent := "not asked"
		h := whole{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusGone)
			io.WriteString(w, "two ")
			io.WriteString(w, "pieces")
			sent = answer.Body.String()
		})}
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/pods"+query, nil))
		check.Equal(t, sent, want, "%q: was sent at once", query)
		if answer.Code != http.StatusGone || answer.Body.String() != "two pieces" || answer.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%q: %d %q %v", query, answer.Code, answer.Body, answer.Header())
		}
	}
}

func TestMetrics(t *testing.T) {
	objects, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	defer objects.Close()
	h := metrics{objects}
	page := httptest.NewRecorder()
	h.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	for _, want := range []string{"process_cpu_seconds_total ", "process_start_time_seconds ", "go_memstats_alloc_bytes_total "} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("no %q in %q", want, page.Body)
		}
	}
	other := httptest.NewRecorder()
	h.ServeHTTP(other, httptest.NewRequest(http.MethodGet, "http://localhost/none", nil))
	if other.Code != http.StatusNotFound || strings.Contains(other.Body.String(), "process_cpu") {
		t.Errorf("another path: %d %s", other.Code, other.Body)
	}
}
