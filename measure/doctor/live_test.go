package doctor

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// head is the start of every server's metrics.
const head = `process_start_time_seconds 1.7e9
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="LIST",version="v1"} 100
`

// sampled reads a sample from head and lines.
func sampled(t *testing.T, lines ...string) *evidence.Sample {
	t.Helper()
	s, err := evidence.ReadMetrics(strings.NewReader(head + strings.Join(lines, "\n") + "\n"))
	check.NoError(t, err)
	return s
}

// foundLive returns the kinds and resources of the findings for a period. before and after are the
// metrics at its start and at its end.
func foundLive(t *testing.T, seconds float64, before, after []string) []string {
	t.Helper()
	r, err := evidence.CompareMetrics(sampled(t, before...), sampled(t, after...), seconds, 1.7e9+3600)
	check.NoError(t, err)
	kinds := []string{}
	for _, f := range NewLive(r).Findings {
		if f.Text == "" || f.Remedy == "" {
			t.Errorf("%+v says nothing", f)
		}
		if _, err := os.Stat("../../docs/incidents/" + f.Incident + ".md"); err != nil {
			t.Errorf("%s: %v", f.Kind, err)
		}
		if line := f.Change != ""; line != (f.Resource != "" && f.Kind != FindingSlow) {
			t.Errorf("%s %s: write %q", f.Kind, f.Resource, f.Change)
		}
		kinds = append(kinds, strings.TrimSpace(f.Kind+" "+f.Resource))
	}
	slices.Sort(kinds)
	return kinds
}

// values returns one line of text for each metric.
func values(of map[string]float64) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, fmt.Sprint(name, " ", of[name]))
	}
	return lines
}

const (
	cache  = `{group="",index="",resource="pods",storage="watchcache"}`
	etcd   = `{group="",index="",resource="pods",storage="etcd"}`
	pods   = `{group="",resource="pods"}`
	deploy = `{group="apps",resource="deployments"}`
	lists  = `apiserver_request_total{code="200",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"}`
)

// TestMetricsKinds checks that each kind is found if its counts grow by the limit in a minute. It
// checks that the kind is not found if they grow by half of the limit.
func TestMetricsKinds(t *testing.T) {
	there := map[string]float64{"apiserver_resource_objects" + pods: 5000, "apiserver_resource_objects" + deploy: 200}
	for want, counts := range map[string]map[string]float64{
		"selectors pods": {
			"apiserver_storage_list_total" + cache: 40, "apiserver_storage_list_fetched_objects_total" + cache: 150_000,
			`apiserver_storage_list_returned_objects_total{group="",resource="pods",storage="watchcache"}`: 1200,
		},
		"full pods": {
			"apiserver_storage_list_total" + cache: 15, "apiserver_storage_list_fetched_objects_total" + cache: 75_000,
			`apiserver_storage_list_returned_objects_total{group="",resource="pods",storage="watchcache"}`: 75_000,
		},
		"etcd pods": {
			"apiserver_storage_list_total" + etcd: 3, "apiserver_storage_list_fetched_objects_total" + etcd: 15_000,
			`apiserver_storage_list_returned_objects_total{group="",resource="pods",storage="etcd"}`: 15_000,
			lists: 3,
		},
		"slow deployments.apps": {"apiserver_terminated_watchers_total" + deploy: 1},
		"watches deployments.apps": {
			`apiserver_request_total{code="200",group="apps",resource="deployments",subresource="",verb="WATCH"}`: 45,
		},
		"initial deployments.apps": {"apiserver_init_events_total" + deploy: 15_000},
		"failing pods":             {`apiserver_request_total{code="504",group="",resource="pods",subresource="",verb="LIST"}`: 8},
		"refused":                  {`apiserver_flowcontrol_rejected_requests_total{flow_schema="service-accounts",priority_level="workload-low",reason="queue-full"}`: 1},
		"waiting": {
			`apiserver_flowcontrol_request_wait_duration_seconds_count{execute="true",flow_schema="a",priority_level="b"}`: 15,
			`apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",flow_schema="a",priority_level="b"}`:   2,
		},
	} {
		t.Run(want, func(t *testing.T) {
			after := maps.Clone(there)
			maps.Copy(after, counts)
			if got := foundLive(t, 60, values(there), values(after)); !slices.Equal(got, []string{want}) {
				t.Errorf("found %q", got)
			}
			if got := foundLive(t, 10, values(there), values(after)); !slices.Equal(got, []string{want}) {
				t.Errorf("found %q in ten seconds", got)
			}
			// Counts from before the minute do not matter.
			if got := foundLive(t, 60, values(after), values(after)); len(got) > 0 {
				t.Errorf("found %q in a minute without anything", got)
			}
			for name, n := range counts {
				after[name] = float64(int(n / 2))
			}
			if got := foundLive(t, 60, values(there), values(after)); len(got) > 0 {
				t.Errorf("found %q of half as much", got)
			}
			// A shorter period does not lower the limits.
			if got := foundLive(t, 1, values(there), values(after)); len(got) > 0 {
				t.Errorf("found %q of half as much in a second", got)
			}
		})
	}
}

// TestConsistencyChecks checks that reads from etcd for kube-apiserver's consistency checks, which
// compare etcd with the watch cache, do not count as reads for LISTs.
func TestConsistencyChecks(t *testing.T) {
	const checks = `apiserver_storage_consistency_checks_total{group="",resource="pods",status=%q}`
	const objects = "apiserver_resource_objects" + pods
	for _, c := range []struct {
		what             string
		status           string
		requests, checks float64
		cached           float64 // LISTs that the watch cache answered, including those of checks
		read             float64
		objects          int64 // of the finding; 0: no finding is expected
	}{
		{"a check", "success", 0, 1, 1, 15_000, 0},
		{"a check that found a difference", "failure", 0, 1, 1, 15_000, 0},
		{"a check that failed", "error", 0, 1, 0, 12_000, 0},
		{"a check beside LISTs from the watch cache", "success", 5, 1, 6, 15_000, 0},
		{"a check that goes on", "success", 0, 0, 1, 12_000, 0},
		{"a check that goes on beside LISTs from the watch cache", "success", 5, 0, 5, 12_000, 0},
		{"LISTs from etcd beside a check", "success", 3, 1, 1, 60_000, 45_000},
		{"LISTs from etcd beside checks that read nothing", "error", 3, 2, 0, 45_000, 45_000},
		{"LISTs from etcd", "success", 3, 0, 0, 45_000, 45_000},
	} {
		before := values(map[string]float64{objects: 15_000})
		after := values(map[string]float64{
			objects: 15_000, fmt.Sprintf(checks, c.status): c.checks, lists: c.requests, "apiserver_storage_list_total" + cache: c.cached,
			"apiserver_storage_list_total" + etcd: c.requests + 2*c.checks, "apiserver_storage_list_fetched_objects_total" + etcd: c.read,
		})
		r, err := evidence.CompareMetrics(sampled(t, before...), sampled(t, after...), 60, 1.7e9+3600)
		check.NoError(t, err)
		all := NewLive(r).Findings
		switch {
		case c.objects == 0 && len(all) > 0:
			t.Errorf("%s: %+v", c.what, all)
		case c.objects > 0 && (len(all) != 1 || all[0].Objects != c.objects || all[0].Count != int64(c.requests)):
			t.Errorf("%s: %+v, want %d objects", c.what, all, c.objects)
		}
	}
}

// TestEventsOfAnotherGroup checks LISTs of events.k8s.io. These LISTs read the same objects as
// LISTs of core Events, and kube-apiserver has no watch cache of Events.
func TestEventsOfAnotherGroup(t *testing.T) {
	const stored = `{group="",resource="events",storage="etcd",index=""}`
	after := values(map[string]float64{
		`apiserver_resource_objects{group="",resource="events"}`:                                                                 5000,
		`apiserver_request_total{code="200",group="events.k8s.io",resource="events",scope="cluster",subresource="",verb="LIST"}`: 4,
		"apiserver_storage_list_total" + stored:                                                                                  4, "apiserver_storage_list_fetched_objects_total" + stored: 20_000,
	})
	if got := foundLive(t, 60, nil, after); !slices.Equal(got, []string{"etcd events"}) {
		t.Errorf("found %q", got)
	}
}

// TestRefusedWatches checks that a refused WATCH does not count as one that ended early.
func TestRefusedWatches(t *testing.T) {
	for code, want := range map[string][]string{
		"200": {"watches deployments.apps"}, "0": {"watches deployments.apps"}, "403": {}, "410": {}, "429": {}, "503": {},
	} {
		ended := fmt.Sprintf(`apiserver_request_total{code=%q,group="apps",resource="deployments",subresource="",verb="WATCH"} 45`, code)
		if got := foundLive(t, 60, nil, []string{ended}); !slices.Equal(got, want) {
			t.Errorf("found %q of WATCHes with %s", got, code)
		}
	}
}
