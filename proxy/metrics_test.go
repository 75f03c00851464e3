package proxy

import (
	"bufio"
	"errors"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/audit"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// documented reads the tables of docs/reference/proxy-metrics.md. It maps the name of each metric
// to its type and labels.
func documented(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open("../docs/reference/proxy-metrics.md")
	check.NoError(t, err)
	defer file.Close()
	row := regexp.MustCompile("^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([a-z_, ]*)\\|")
	out := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		m := row.FindStringSubmatch(lines.Text())
		if m == nil {
			if strings.HasPrefix(lines.Text(), "| `") {
				t.Errorf("not understood: %s", lines.Text())
			}
			continue
		}
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		out[m[1]] = m[2] + " " + strings.Join(labels, ",")
	}
	return out
}

// TestMetricsAreRead checks that the proxy answers only GET and HEAD of the metrics. It sends no
// review for other methods, whose names a caller can make up.
func TestMetricsAreRead(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	asked := func() (verbs []string) {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, s := range u.reviews {
			if about := s.NonResourceAttributes; about != nil && about.Path == "/metrics" {
				verbs = append(verbs, about.Verb)
			}
		}
		u.reviews = nil
		return verbs
	}
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		return s.NonResourceAttributes != nil && s.NonResourceAttributes.Verb == "head"
	})
	for _, credentials := range [][]string{{"Authorization", "Bearer token-jane"}, nil} {
		for method, code := range map[string]int{
			http.MethodGet: http.StatusOK, http.MethodHead: http.StatusForbidden,
			http.MethodDelete: http.StatusMethodNotAllowed, http.MethodPost: http.StatusMethodNotAllowed,
			"A1": http.StatusMethodNotAllowed, "A2": http.StatusMethodNotAllowed, "WATCH": http.StatusMethodNotAllowed, "get": http.StatusMethodNotAllowed,
		} {
			resp := tp.open(tp.client, method, "/metrics", credentials...)
			if resp.StatusCode != code {
				t.Errorf("%s: %s", method, resp.Status)
			}
			if refused := code == http.StatusMethodNotAllowed; refused != (len(asked()) == 0) || refused != (resp.Header.Get("Allow") != "") {
				t.Errorf("%s: whether the upstream is asked, and %v", method, resp.Header)
			}
		}
	}
}

// TestMetricsTakeSeats checks that requests for the metrics count against the bound of reads in
// progress, because each of them needs a review.
func TestMetricsTakeSeats(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxRequests: 1, timeouts: impatient()})
	slow := tp.dial("http/1.1").send("GET", "/api/v1/pods?resourceVersion=0", 10, "")
	tp.until("it has the place", func() bool { return inUse(tp.server.seats.Reads) == 1 })
	tp.opens(http.StatusTooManyRequests, tp.client, http.MethodGet, "/metrics")
	slow.Close()
	tp.until("the metrics are read", func() bool { code, _ := tp.get("jane", "/metrics"); return code == http.StatusOK })
	if n := inUse(tp.server.seats.Reads); n > 1 {
		t.Errorf("%d places are taken", n)
	}
}

// TestMetrics checks that only callers whom the upstream allows can read the metrics. The metrics
// must be exactly those in docs/reference/proxy-metrics.md, with their types and labels.
func TestMetrics(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxRequests: 1, timeouts: impatient()})
	tp.get("jane", "/api/v1/pods?resourceVersion=0")
	tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.until("it watches", func() bool { return tp.server.mirror.Find(podsResource).Watching() == 1 })
	slow := tp.dial("http/1.1").send("GET", "/api/v1/pods?resourceVersion=0", 10, "")
	tp.until("it has the place", func() bool { return inUse(tp.server.seats.Reads) == 1 })
	tp.want(http.StatusTooManyRequests, "jane", "/api/v1/pods?resourceVersion=0")
	slow.Close()
	// These resources do not exist, so their names must not appear in labels.
	for _, path := range []string{"/apis/made.up/v1/things", "/api/v1/pods/made/up", "/made/up"} {
		tp.until(path+" is answered", func() bool { code, _ := tp.get("jane", path); return code != http.StatusTooManyRequests })
	}
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "denied" })
	audit.HandlePluginError("log", errors.New("none")) // creates the metric of failed audit events
	code, body := tp.get("jane", "/metrics")
	for _, want := range []string{
		`apiserver_watch_cache_initializations_total{group="",resource="pods"} 1`,
		`apiserver_watch_cache_initialization_duration_seconds_count{group="",resource="pods"} 1`,
		`apiserver_init_events_total{group="",resource="pods"} 3`,
		`apiserver_resource_objects{group="",resource="pods"} 3`,
		`apiserver_longrunning_requests{component="weir-proxy",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_request_total{code="200",component="weir-proxy",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"}`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`,
		`weir_proxy_watchers{group="",resource="pods"} 1`,
		`weir_proxy_current{group="",resource="pods"} 1`,
		"process_cpu_seconds_total ", "process_resident_memory_bytes ", "go_memstats_heap_alloc_bytes ",
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d: no %s", code, want)
		}
	}
	if strings.Contains(body, `="made`) {
		t.Error("a label has a name that only a caller has sent")
	}
	checkDocumented(t, body)

	tp.says(http.StatusForbidden, `User \"denied\" cannot get path \"/metrics\"`, "denied", "/metrics")
	tp.want(http.StatusForbidden, "jane", "/metrics", "Impersonate-User", "root")
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "system:anonymous" })
	tp.opens(http.StatusForbidden, tp.client, http.MethodGet, "/metrics")
	tp.opens(http.StatusUnauthorized, tp.client, http.MethodGet, "/metrics", "Authorization", "Bearer forged")
	tp.says(http.StatusOK, "[+]resource/pods ok", "jane", "/readyz?verbose")
}

// checkDocumented checks that a page contains exactly the metrics that
// docs/reference/proxy-metrics.md lists, with their types and labels.
func checkDocumented(t *testing.T, page string) {
	t.Helper()
	exported := map[string]string{}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	check.NoError(t, err)
	for name, family := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		var labels []string
		for _, l := range family.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		exported[name] = strings.ToLower(family.GetType().String()) + " " + strings.Join(labels, ",")
	}
	if want := documented(t); !maps.Equal(exported, want) {
		for name, metricType := range exported {
			if want[name] != metricType {
				t.Errorf("%s is %q, and documented as %q", name, metricType, want[name])
			}
		}
		for name := range want {
			if exported[name] == "" {
				t.Errorf("%s is documented, and not exported", name)
			}
		}
	}
}
