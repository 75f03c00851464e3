package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/apiserver"
)

// TestAggregated checks that the proxy caches a resource in Options.Resources only if the upstream
// proves that kube-apiserver itself serves the resource.
func TestAggregated(t *testing.T) {
	const path = "/apis/example.com/v1/widgets?resourceVersion=0"
	for name, tt := range map[string]struct {
		code    int
		service string
	}{
		"behind a service":     {http.StatusOK, "widget-server"},
		"may not be read":      {http.StatusForbidden, ""},
		"no such service":      {http.StatusNotFound, ""},
		"an aggregator's 503":  {http.StatusServiceUnavailable, ""},
		"credentials are gone": {http.StatusUnauthorized, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{})
			u.aggregate(func(name string) (int, string) {
				if name == "v1.example.com" {
					return tt.code, tt.service
				}
				return http.StatusOK, ""
			})
			tp := startProxy(t, u, Options{Resources: []string{"widgets.v1.example.com", "pods"}, MemoryBudget: 64 << 20})
			define(tp)
			tp.until("widgets are tried, and pods are cached", func() bool {
				pods, named := tp.server.mirror.Find(podsResource), tp.server.mirror.Find(widgets)
				return pods != nil && pods.Serving() != nil && named != nil && (named.State().Err != "" || named.Serving() != nil)
			})
			if res := tp.server.mirror.Find(widgets); res.Serving() != nil || res.State().Sessions != 0 {
				t.Error("widgets are cached")
			}
			u.forwarded("")
			tp.says(http.StatusOK, "Widgetry", "jane", path)
			u.wantForwarded(1, "/apis/example.com")
		})
	}
}

// TestListKind checks that the proxy's lists of a custom resource have the same kind as the
// upstream's lists, even if the proxy may not read the resource's definition.
func TestListKind(t *testing.T) {
	for _, forbidden := range []string{"", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"} {
		u := startUpstream(t, apiserver.Options{})
		u.forbid(forbidden)
		tp := startProxy(t, u, Options{Resources: []string{"widgets.v1.example.com"}})
		define(tp)
		tp.until("widgets are cached", func() bool { return tp.serves(widgets) })
		u.forwarded("")
		code, body := tp.get("jane", "/apis/example.com/v1/widgets?resourceVersion=0")
		if passed := u.forwarded("/apis/example.com"); code != http.StatusOK || !strings.Contains(body, `"kind":"Widgetry"`) || len(passed) > 0 {
			t.Errorf("without %q: %d %.200s, upstream: %v", forbidden, code, body, passed)
		}
	}
}

// TestAggregatedAsked checks that the proxy does not cache an aggregated resource on demand, and
// does not retry immediately.
func TestAggregatedAsked(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	u.aggregate(func(string) (int, string) { return http.StatusOK, "widget-server" })
	tp := startProxy(t, u, Options{MemoryBudget: 64 << 20})
	define(tp)
	tp.want(http.StatusOK, "jane", "/apis/example.com/v1/widgets?resourceVersion=0")
	tp.until("it is refused", func() bool { return !tp.server.mirror.CanAdd(widgets) && tp.server.mirror.Find(widgets) == nil })
}

// TestBecomesAggregated checks that the proxy stops caching a resource when an aggregated API
// server starts to serve it.
func TestBecomesAggregated(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	u.aggregate(func(string) (int, string) { return http.StatusOK, "" })
	wait := timing(func(w *timeouts) { w.Origin = 20 * time.Millisecond })
	tp := startProxy(t, u, Options{Resources: []string{"widgets.v1.example.com"}, timeouts: wait})
	define(tp)
	cached := func() bool { return tp.serves(widgets) }
	tp.until("widgets are cached", cached)
	lines := tp.watch("jane", "/apis/example.com/v1/widgets?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	u.aggregate(func(string) (int, string) { return http.StatusOK, "widget-server" })
	tp.ends("aggregated", lines)
	if res := tp.server.mirror.Find(widgets); res.Serving() != nil {
		t.Error("widgets are cached")
	}
}

// TestOriginIsAskedAgain checks that the proxy still checks which server serves a resource while
// the upstream does not answer the request for the resource's schema.
func TestOriginIsAskedAgain(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	u.aggregate(func(string) (int, string) { return http.StatusOK, "" })
	wait := timing(func(w *timeouts) { w.Origin, w.review = 20*time.Millisecond, 2*time.Second })
	tp := startProxy(t, u, Options{Resources: []string{"widgets.v1.example.com"}, timeouts: wait})
	define(tp)
	tp.until("widgets are cached", func() bool { return tp.serves(widgets) })
	u.block("/openapi/v3")
	defer u.block("")
	tp.until("its definition is asked for", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.kept > 0
	})
	u.aggregate(func(string) (int, string) { return http.StatusOK, "widget-server" })
	tp.until("it is not cached any more", func() bool { return tp.server.mirror.Find(widgets).Serving() == nil })
}
