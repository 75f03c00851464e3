package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

var (
	widgetsV1 = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widgetsV2 = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}
)

// startVersions starts a proxy that caches the second version of a resource from the start, and the
// first version on demand.
func startVersions(t *testing.T) *testProxy {
	t.Helper()
	_, tp := start(t, apiserver.Options{}, Options{Resources: []string{"widgets.v2.example.com"}, MemoryBudget: 64 << 20})
	define(tp)
	serveVersions(tp, map[string]bool{"v1": true, "v2": true})
	tp.cached(widgetsV2)
	return tp
}

// cached reads a resource until it is cached.
func (tp *testProxy) cached(gvr schema.GroupVersionResource) {
	tp.t.Helper()
	tp.until(gvr.String()+" is cached", func() bool {
		tp.get("jane", "/apis/"+gvr.GroupVersion().String()+"/"+gvr.Resource+"?resourceVersion=0")
		res := tp.server.mirror.Find(gvr)
		return res != nil && res.Serving() != nil
	})
}

// TestInspectedVersions checks that the page of package debug distinguishes two versions of a
// resource.
func TestInspectedVersions(t *testing.T) {
	tp := startVersions(t)
	tp.cached(widgetsV1)
	var names []string
	for _, r := range (inspected{tp.server}).State().Resources {
		names = append(names, r.FullName+" "+r.Name+" "+r.Version)
	}
	if want := []string{"widgets.v1.example.com widgets.example.com v1", "widgets.v2.example.com widgets.example.com v2"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	for name, want := range map[string]string{
		"widgets.v1.example.com": "example.com/v1", "widgets.v2.example.com": "example.com/v2", "widgets.example.com": "example.com/v2",
		"widgets.v3.example.com": "", "widgets": "",
	} {
		if of, ok := (inspected{tp.server}).Objects(name); of.Kind.APIVersion != want || ok != (want != "") {
			t.Errorf("%s is %+v, %t", name, of.Kind, ok)
		}
		if want != "" {
			tp.history(name, "default/w")
		}
	}
}

// counts returns the counters of a resource and the number of its watchers, by metric.
func (tp *testProxy) counts(of schema.GroupResource) map[string]float64 {
	tp.t.Helper()
	families, err := tp.server.registry.Gather()
	check.NoError(tp.t, err)
	counts := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			name := fmt.Sprint(family.GetName(), labels)
			switch {
			case labels["group"] != of.Group || labels["resource"] != of.Resource:
			case family.GetType() == dto.MetricType_COUNTER:
				counts[name] = m.GetCounter().GetValue()
			case family.GetName() == "weir_proxy_watchers":
				counts[name] = m.GetGauge().GetValue()
			}
		}
	}
	return counts
}

// TestMetricsOfVersions checks that the counters of a configured resource do not decrease when a
// caller reads another version of the resource.
func TestMetricsOfVersions(t *testing.T) {
	tp := startVersions(t)
	tp.want(http.StatusOK, "jane", "/apis/example.com/v2/namespaces/default/widgets/w?resourceVersion=0")
	tp.next(tp.watch("jane", "/apis/example.com/v2/widgets?watch=true&resourceVersion=0"), "ADDED")
	before := tp.counts(widgetsV2.GroupResource())
	tp.cached(widgetsV1)
	after := tp.counts(widgetsV2.GroupResource())
	for name, n := range before {
		if after[name] < n {
			t.Errorf("%s was %v and is %v", name, n, after[name])
		}
	}
	if len(before) < 10 {
		t.Errorf("too few: %v", before)
	}
}
