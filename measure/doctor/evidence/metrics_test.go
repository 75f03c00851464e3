package evidence

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirproject/weir/internal/testing/check"
)

// metricsHead is the start of every server's metrics.
const metricsHead = `process_start_time_seconds 1.7e9
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="LIST",version="v1"} 100
`

// readSample reads a sample from metricsHead and lines.
func readSample(t *testing.T, lines ...string) *Sample {
	t.Helper()
	s, err := ReadMetrics(strings.NewReader(metricsHead + strings.Join(lines, "\n") + "\n"))
	check.NoError(t, err)
	return s
}

const (
	cache = `{group="",index="",resource="pods",storage="watchcache"}`
	etcd  = `{group="",index="",resource="pods",storage="etcd"}`
	pods  = `{group="",resource="pods"}`
)

// TestOlderServers checks servers before 1.37. These servers count LISTs from the watch cache under
// other names, and some servers count under both names.
func TestOlderServers(t *testing.T) {
	older := []string{`apiserver_cache_list_total{group="",index="",resource="pods"} 7`, `apiserver_storage_list_total{resource="pods"} 3`,
		`apiserver_storage_objects{resource="deployments.apps"} 9`}
	s := readSample(t, older...)
	if p := s.Resources["pods"]; p.Cache.Lists != 7 || p.Etcd.Lists != 3 {
		t.Errorf("older: %+v", p)
	}
	check.Equal(t, s.Resources["deployments.apps"].Objects, 9, "deployments")
	both := append(older[:1:1], "apiserver_storage_list_total"+cache+" 7", "apiserver_storage_list_total"+etcd+" 3")
	if p := readSample(t, both...).Resources["pods"]; p.Cache.Lists != 7 || p.Etcd.Lists != 3 {
		t.Errorf("later: %+v", p)
	}
}

// TestCompare checks that a report has the growth of counters, and the last value of other metrics.
// It also checks resources and levels that the first sample lacks.
func TestCompare(t *testing.T) {
	const level = `{priority_level="low"}`
	at := func(n int) []string {
		var lines []string
		for _, line := range []string{
			`apiserver_request_total{code="504",group="",resource="pods",subresource="",verb="LIST"} %d`,
			`apiserver_request_total{code="429",group="",resource="pods",subresource="",verb="GET"} %d`,
			`apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="WATCH"} %d`,
			"apiserver_terminated_watchers_total" + pods + " %d", "apiserver_init_events_total" + pods + " %d",
			`apiserver_storage_consistency_checks_total{group="",resource="pods",status="success"} %d`,
			`apiserver_flowcontrol_rejected_requests_total{flow_schema="a",priority_level="low"} %d`,
			"apiserver_flowcontrol_current_executing_seats" + level + " %d", "apiserver_flowcontrol_current_limit_seats" + level + " %d",
			"apiserver_flowcontrol_request_wait_duration_seconds_sum" + level + " %d",
			"apiserver_flowcontrol_request_wait_duration_seconds_count" + level + " %d",
		} {
			lines = append(lines, fmt.Sprintf(line, n))
		}
		return append(lines, `apiserver_resource_objects{group="apps",resource="deployments"} 9`, `apiserver_resource_objects{group="",resource="nodes"} 2`)
	}
	for _, c := range []struct {
		before []string
		grown  float64
	}{{at(3), 4}, {nil, 7}} {
		r, err := CompareMetrics(readSample(t, c.before...), readSample(t, at(7)...), 60, 1.7e9+3600)
		check.NoError(t, err)
		var names []string
		for i := range r.Resources {
			names = append(names, r.Resources[i].Name)
		}
		if want := []string{"pods", "deployments.apps", "nodes"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		p, l := &r.Resources[0], &r.Levels[0]
		for what, got := range map[string]float64{
			"failed": r.Failed, "refused": r.Refused, "failed LISTs": p.FailedLists, "ended": p.EndedWatches, "slow": p.SlowWatches,
			"initial": p.InitialEvents, "checks": p.Checks, "rejected": l.Rejected["a"], "waited": l.Waited, "seconds": l.WaitSeconds,
		} {
			check.Equal(t, got, c.grown, "%s", what)
		}
		if l.Seats != 7 || l.Limit != 7 || r.Uptime != 3600 || p.Read() != 0 || p.Returned() != 0 {
			t.Errorf("%+v, %+v", l, r)
		}
	}
}

// TestAnother checks that CompareMetrics does not compare samples of two servers.
func TestAnother(t *testing.T) {
	other, err := ReadMetrics(strings.NewReader(strings.Replace(metricsHead, "1.7e9", "1.8e9", 1)))
	check.NoError(t, err)
	if _, err := CompareMetrics(readSample(t), other, 60, 1.8e9); !errors.Is(err, ErrAnotherServer) {
		t.Errorf("compared: %v", err)
	}
}

// TestReadBad checks that ReadMetrics returns an error for text that is malformed, endless, or not
// from an API server.
func TestReadBad(t *testing.T) {
	for text, want := range map[string]string{
		"": ErrNotAPIServer.Error(), "go_goroutines 7\nprocess_start_time_seconds 1\n": ErrNotAPIServer.Error(), "<html>\n": ErrNotAPIServer.Error(),
		metricsHead + "process_cpu_seconds_total much\n":                                    "expected float",
		metricsHead + "apiserver_request_total{" + strings.Repeat("x", 2*maxLine):           "too long",
		metricsHead + "apiserver_request_total{code=\"200\"\napiserver_request_total{} 1\n": "read /metrics",
	} {
		if s, err := ReadMetrics(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %+v, %v", text, s, err)
		}
	}
}

// TestRealServer checks that ReadMetrics finds its metrics in the output of a real kube-apiserver.
func TestRealServer(t *testing.T) {
	f, err := os.Open("testdata/kube-apiserver.txt")
	check.NoError(t, err)
	defer f.Close()
	s, err := ReadMetrics(f)
	check.NoError(t, err)
	p := s.Resources["pods"]
	for what, n := range map[string]float64{
		"start": s.Started, "CPU": s.CPUSeconds, "RSS": s.RSSBytes, "allocated": s.Allocated, "requests": s.Requests,
		"pods": p.Objects, "bytes": s.Resources["namespaces"].Bytes, "LISTs": p.Lists, "seconds": p.ListSeconds, "sent": p.ListBytes,
		"cache's LISTs": p.Cache.Lists, "read": p.Cache.Read, "returned": p.Cache.Returned, "watches": p.OpenWatches, "events": p.WatchEvents,
		"bytes of events": p.WatchBytes, "etcd's LISTs": p.Etcd.Lists,
		"limit": s.Levels["workload-low"].Limit,
	} {
		if n <= 0 {
			t.Errorf("no %s", what)
		}
	}
	if !strings.HasPrefix(s.Version, "v1.") {
		t.Errorf("version %q", s.Version)
	}
}

// FuzzRead checks that ReadMetrics never panics.
func FuzzRead(f *testing.F) {
	f.Add(metricsHead)
	f.Add("apiserver_request_total{code=\"\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		before, err := ReadMetrics(strings.NewReader(text))
		if err != nil {
			return
		}
		if _, err := CompareMetrics(before, before, 60, 0); err != nil {
			t.Error(err)
		}
	})
}

// sameAsPrometheus checks that a line that Prometheus' parser accepts gets the same labels and
// value from parseLine. It reports whether Prometheus' parser accepts the line.
func sameAsPrometheus(t *testing.T, line string) (read bool) {
	t.Helper()
	name := nameOf([]byte(line))
	if name == "" || strings.ContainsAny(line, "\r\n") || strings.HasPrefix(line, "#") {
		return false
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(line + "\n"))
	if err != nil || families[name] == nil {
		return false
	}
	want := labels{}
	for _, pair := range families[name].Metric[0].Label {
		want[pair.GetName()] = pair.GetValue()
	}
	value := families[name].Metric[0].GetUntyped().GetValue()
	l, v, err := parseLine(line[len(name):])
	if err != nil {
		t.Errorf("%q: %v, want %v %v", line, err, want, value)
	} else if !maps.Equal(l, want) || v != value && !(math.IsNaN(v) && math.IsNaN(value)) {
		t.Errorf("%q: %v %v, want %v %v", line, l, v, want, value)
	}
	return true
}

var metricLines = []string{
	`a 1`, "a\t-1.5e3", `a  NaN`, `a +Inf 1700000000000`, `a{} 0`, `a {b="c"} 1`, `a{b="c",} 1`,
	`a{ b = "c" , d="" } 2`,
	`a{b="x\\y\"z\n{},="} 3`, `a{b="ü"}4`,
}

// TestLines checks that lines are parsed as Prometheus parses them.
func TestLines(t *testing.T) {
	for _, line := range metricLines {
		if !sameAsPrometheus(t, line) {
			t.Errorf("Prometheus does not read %q", line)
		}
	}
	text, err := os.ReadFile("testdata/kube-apiserver.txt")
	check.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		if sameAsPrometheus(t, strings.TrimSuffix(line, "\n")) {
			n++
		}
	}
	if n < 50 {
		t.Errorf("%d lines of a server were compared", n)
	}
}

// TestMalformedLines checks that a line that is no metric returns an error.
func TestMalformedLines(t *testing.T) {
	for _, rest := range []string{
		"", " ", " x", " 1 2 3", "{", "{b", "{b=", `{b="`, `{b="\`, `{b="\x"} 1`,
		`{b="c"`, `{b="c" d="e"} 1`,
		`{="c"} 1`, `{b="c",b="d"} 1`, `{b=c} 1`, `{,} 1`, `{b="c"}`,
	} {
		if l, v, err := parseLine(rest); err == nil {
			t.Errorf("%q: %v %v", rest, l, v)
		}
	}
}

// FuzzLine checks that parseLine returns the same labels and value as Prometheus' parser for a line
// that Prometheus' parser accepts.
func FuzzLine(f *testing.F) {
	for _, line := range metricLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { sameAsPrometheus(t, line) })
}
