package servers

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
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
	check.NoError(t, err)
	want := samples{cpuMetric: 12.34, ofCallers: 3, ofItsOwn: 1500, `odd{text="a \"}\" b, {c} d"}`: 7, "indented": 8}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseMetricsRejectsOtherText(t *testing.T) {
	for _, page := range []string{
		"<html>\n", "a\n", "a b\n", "{} 1\n", "a 1 2 3\n", `a{b="c 1` + "\n", "a " + strings.Repeat("1", 1<<20) + "\n",
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

// TestProcess checks the values of this process and of a process that has ended. Without /proc, it
// does nothing.
func TestProcess(t *testing.T) {
	self := pid(os.Getpid())
	if _, err := self.cpu(); err != nil {
		if _, proc := os.Stat("/proc/self/stat"); proc == nil {
			t.Fatal(err)
		}
		return
	}
	if now, peak, err := self.memory(); err != nil || now <= 0 || peak < now {
		t.Errorf("memory %v, peak %v, %v", now, peak, err)
	}
	if started, err := self.started(); err != nil || time.Since(time.Unix(int64(started), 0)) > 24*time.Hour {
		t.Errorf("started at %v, %v", started, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	if p, ok := listening(port); !ok || p != self {
		t.Errorf("process %d listens, %v; want %d", p, ok, self)
	}
	l.Close()
	if p, ok := listening(port); ok {
		t.Errorf("process %d listens at a closed port", p)
	}
	const none = pid(1 << 30)
	_, cpuErr := none.cpu()
	_, startErr := none.started()
	if _, _, err := none.memory(); err == nil || cpuErr == nil || startErr == nil {
		t.Error("a process that does not exist is read")
	}
}
