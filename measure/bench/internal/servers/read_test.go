package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseMetrics(t *testing.T) {
	const page = `# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.34
process_cpu_seconds_total_of_another 1

weir_proxy_upstream_requests_total{for="forwarded"} 3
weir_proxy_upstream_requests_total{for="all"} 1.5e+03 1700000000000
odd{text="a \"}\" b, {c} d"} 7
  indented	8
not_wanted NaN
`
	got, err := parseMetrics(strings.NewReader(page), cpuMetric, upstreamMetric, "odd", "indented", "absent")
	if err != nil {
		t.Fatal(err)
	}
	want := samples{cpuMetric: 12.34, ofCallers: 3, ofItsOwn: 1500, `odd{text="a \"}\" b, {c} d"}`: 7, "indented": 8}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseMetricsRefusesWhatIsNone(t *testing.T) {
	for _, page := range []string{
		"<html>\n", "a\n", "a b\n", "{} 1\n", "a 1 2 3\n", `a{b="c 1` + "\n", "a " + strings.Repeat("1", maxMetricLine) + "\n",
	} {
		if got, err := parseMetrics(strings.NewReader(page), "a"); err == nil {
			t.Errorf("%.40q: %v", page, got)
		}
	}
}

func TestParseHeapProfile(t *testing.T) {
	got, err := parseHeapProfile(strings.NewReader("heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# HeapAlloc = 1234\n# HeapSys = 9\n"))
	if err != nil || got != 1234 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "# HeapSys = 9\n", "# HeapAlloc = much\n"} {
		if got, err := parseHeapProfile(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	const stat = "4711 (odd) name) (x) S 1 4711 4711 0 -1 4194560 5 6 7 8 250 50 11 12 20 0 9 0 100 200 300"
	got, err := parseStat([]byte(stat))
	if err != nil || got != 3*time.Second {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "1 (x) S", strings.Replace(stat, " 250 ", " much ", 1)} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseStart(t *testing.T) {
	const stat = "4711 (odd) name) (x) S 1 4711 4711 0 -1 4194560 5 6 7 8 250 50 11 12 20 0 9 0 1250 200 300"
	const machine = "cpu  1 2 3\nintr 4\nctxt 5\nbtime 1700000000\nprocesses 6\n"
	got, err := parseStart([]byte(stat), []byte(machine))
	if err != nil || got != 1_700_000_012.5 {
		t.Errorf("%v, %v", got, err)
	}
	for _, pair := range [][2]string{
		{"", machine}, {"1 (x) S", machine}, {strings.Replace(stat, " 1250 ", " late ", 1), machine},
		{stat, ""}, {stat, "cpu  1 2 3\n"}, {stat, "btime long ago\n"},
	} {
		if got, err := parseStart([]byte(pair[0]), []byte(pair[1])); err == nil {
			t.Errorf("%q: %v", pair, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	now, peak, err := parseStatus(strings.NewReader("Name:\tx\nVmPeak:\t 9000 kB\nVmHWM:\t   2000 kB\nVmRSS:\t   1000 kB\nThreads:\t4\n"))
	if err != nil || now != 1000<<10 || peak != 2000<<10 {
		t.Errorf("%v, %v, %v", now, peak, err)
	}
	for _, text := range []string{"", "Name:\tx\nState:\tZ (zombie)\n", "VmRSS: much kB\n"} {
		if now, _, err := parseStatus(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %v", text, now)
		}
	}
}

func TestParseListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1 0000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1002 1 0000 100 0 0 10 0
   2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1003 1 0000 100 0 0 10 0
   3: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:00000000 0 0 0 1004 1 0
   4: short
`
	if diff := cmp.Diff([]string{"1001", "1004"}, parseListeners(strings.NewReader(table), 8080)); diff != "" {
		t.Error(diff)
	}
}
