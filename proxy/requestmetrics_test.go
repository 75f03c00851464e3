package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestLastWrite checks that a write deadline is set if bytes may still be buffered when the handler
// returns. Otherwise none is set, because setting one costs time.
func TestLastWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		major int
		sizes []int
		want  bool
	}{
		"nothing":        {2, nil, false},
		"small":          {2, []int{1}, true},
		"large":          {2, []int{httpBufferSize}, false},
		"small at last":  {2, []int{httpBufferSize, 1}, true},
		"large at last":  {2, []int{1, httpBufferSize}, false},
		"large, HTTP/1":  {1, []int{httpBufferSize}, true},
		"nothing, HTTP1": {1, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &noteDeadline{ResponseWriter: httptest.NewRecorder()}
			a := &responseWriter{ResponseWriter: w}
			for _, n := range tc.sizes {
				must(t)(a.Write(make([]byte, n)))
			}
			a.limitFinalWrite(&http.Request{ProtoMajor: tc.major})
			check.Equal(t, !w.deadline.IsZero(), tc.want, "a deadline")
		})
	}
}

// TestNamesInMetrics checks that requests that are not known to be authenticated add no names to
// the labels.
func TestNamesInMetrics(t *testing.T) {
	m := newRequestMetrics(prometheus.NewRegistry())
	long, pods := strings.Repeat("x", maxNamed+1), &request.Info{OfResource: true, Path: request.Path{Version: "v1", Resource: "pods"}}
	for name, tt := range map[string]struct {
		method   string
		resource string
		code     int
		named    bool
	}{
		"answered":  {http.MethodGet, "pods", http.StatusOK, true},
		"refused":   {http.MethodGet, "refused", http.StatusForbidden, false},
		"preflight": {http.MethodOptions, "anything", http.StatusNoContent, false},
		"long":      {http.MethodGet, long, http.StatusOK, false},
		"no text":   {http.MethodGet, "\xff", http.StatusOK, false},
	} {
		info := *pods
		info.Resource = tt.resource
		if got := m.name(tt.method, &info, tt.code); (got.resource == tt.resource) != tt.named || !tt.named && got != (metricResource{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := m.name(http.MethodOptions, pods, http.StatusForbidden); got.resource != "pods" {
		t.Errorf("what is known: %+v", got)
	}
}
