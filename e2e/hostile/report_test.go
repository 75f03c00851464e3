package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// row contains the measurements of one attack. Sizes are in bytes.
type row struct {
	Attack           string
	SameAddress      bool
	Seconds          float64 // duration of the attack
	CalmRSS          int64   // peak with only well-behaved clients
	PeakRSS          int64   // peak during the attack
	PeakLive         int64   // largest live heap of a garbage collection during the attack
	CPUSeconds       float64
	Polite           map[string]answers
	Failures         []string
	Connections      int            // connections that attackers opened
	Statuses, Ends   map[string]int // what attackers received
	LeaveSeconds     float64        // until connections and goroutines were at the baseline again
	LeftHeap         int64          // growth of the live heap by the attack
	LeftRSS          int64
	Reconnected      int
	ReconnectSeconds float64

	// The following are measurements of kube-apiserver during the same attack.
	Upstream           map[string]answers
	UpstreamRSS        int64
	UpstreamCPUSeconds float64
}

// answers has the number and the 99th percentile latency of the requests of one kind.
type answers struct {
	Asked, Answered int
	P99             time.Duration
}

// summary returns the answers of each kind. If r is not nil, it also sets r.Failures.
func summary(tallies map[string]*tally, r *row) map[string]answers {
	out := map[string]answers{}
	for name, y := range tallies {
		out[name] = answers{y.asked(), y.answered(), y.p99()}
	}
	if r != nil {
		r.Failures = failures(tallies)
	}
	return out
}

// judgeTimes checks the latencies, and the times that the proxy needs to recover.
func (r *row) judgeTimes(t *testing.T) {
	t.Helper()
	for name, got := range r.Polite {
		limit := maxLatency
		if up, ok := r.Upstream[name]; ok {
			limit = max(limit, 2*up.P99)
		}
		if got.P99 > limit {
			t.Errorf("%s: p99 is %v; at most %v", name, got.P99, limit)
		}
	}
	if r.LeaveSeconds > maxLeave.Seconds() {
		t.Errorf("connections and goroutines were at the baseline after %.0f s", r.LeaveSeconds)
	}
	if r.ReconnectSeconds > maxReconnect.Seconds() {
		t.Errorf("clients were served %.0f s after a restart", r.ReconnectSeconds)
	}
}

func resultFile(t *testing.T) string {
	return filepath.Join(*results, strings.ReplaceAll(t.Name(), "/", "-")+".json")
}

// stored reports whether an earlier run has stored the row of this test. If so, it adds the row to
// the table.
func stored(t *testing.T) bool {
	t.Helper()
	if *results == "" {
		return false
	}
	raw, err := os.ReadFile(resultFile(t))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	r := &row{}
	if err == nil {
		err = json.Unmarshal(raw, r)
	}
	check.NoError(t, err)
	r.add()
	return true
}

func (r *row) add() {
	measured.Lock()
	defer measured.Unlock()
	measured.rows = append(measured.rows, r)
}

// print adds the row to the table and logs it. If the test has not failed, print also stores the
// row in the directory of -hostile.results.
func (r *row) print(t *testing.T) {
	t.Helper()
	r.add()
	t.Log(r)
	t.Logf("attackers: %d connections, received %v, ended by %v", r.Connections, r.Statuses, r.Ends)
	if *results == "" || t.Failed() {
		return
	}
	raw, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		err = os.MkdirAll(*results, 0o755)
	}
	if err == nil {
		err = os.WriteFile(resultFile(t), append(raw, '\n'), 0o644)
	}
	check.NoError(t, err)
}

// measured has the rows of the table.
var measured struct {
	sync.Mutex
	rows []*row
}

// kinds are the kinds of well-behaved clients, in the order of the table's columns.
var kinds = []string{"list-known", "list-new", "livez", "readyz", "health-livez", "health-readyz"}

// table returns the rows as a Markdown table. Memory is in MiB. For each kind of well-behaved
// client, a cell has the number of requests that were answered with 200, and their 99th percentile
// latency. Numbers in parentheses are kube-apiserver's during the same attack.
func table() string {
	measured.Lock()
	defer measured.Unlock()
	head := slices.Concat([]string{"attack", "address", "memory", "peak RSS", "live", "CPU"}, kinds, []string{"back after a restart", "at rest", "heap left", "RSS left"})
	lines := []string{"| " + strings.Join(head, " | ") + " |", strings.Repeat("|---", len(head)) + "|"}
	for _, r := range measured.rows {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}

// String returns the row in the form of table.
func (r *row) String() string {
	address := "another"
	if r.SameAddress {
		address = "the same"
	}
	mib := func(n int64) string { return fmt.Sprint(n >> 20) }
	load := func(seconds float64) string { return fmt.Sprintf("%.0f %%", 100*seconds/r.Seconds) }
	cells := []string{r.Attack, address, mib(r.PeakRSS - r.CalmRSS), mib(r.PeakRSS), mib(r.PeakLive), load(r.CPUSeconds)}
	if r.Upstream != nil {
		cells[3] += " (" + mib(r.UpstreamRSS) + ")"
		cells[5] += " (" + load(r.UpstreamCPUSeconds) + ")"
	}
	for _, kind := range kinds {
		got, ok := r.Polite[kind]
		if !ok {
			cells = append(cells, "")
			continue
		}
		cell := got.String()
		if up, ok := r.Upstream[kind]; ok {
			cell += " (" + up.String() + ")"
		}
		cells = append(cells, cell)
	}
	cells = append(cells, fmt.Sprintf("%d in %.0f s", r.Reconnected, r.ReconnectSeconds), fmt.Sprintf("%.0f s", r.LeaveSeconds), mib(r.LeftHeap), mib(r.LeftRSS))
	return "| " + strings.Join(cells, " | ") + " |"
}

func (a answers) String() string {
	if a.Answered < a.Asked {
		return fmt.Sprintf("%d of %d, %.2f s", a.Answered, a.Asked, a.P99.Seconds())
	}
	return fmt.Sprintf("%d, %.2f s", a.Asked, a.P99.Seconds())
}
