package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/programs/report"
)

// trial is a subject of TestPrograms. It comes to know all pods.
type trial struct {
	name string
	args []string
}

func trials() []trial {
	return []trial{
		{name: "prometheus"},
		{name: "k8sattributes", args: []string{"-pods", strconv.Itoa(*podsFlag)}},
	}
}

// TestPrograms runs each program as it is and changed, one after the other, and measures both until they know everything; then both
// at once, through changes, after which they must know the same. It takes long, and does nothing unless it is asked to: make programs.
func TestPrograms(t *testing.T) {
	if *podsFlag == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	w := newWorld(t, ctx)
	var table strings.Builder
	fmt.Fprintf(&table, "%-16s %5s   %-23s   %-23s   %s\n", "", "lines", "peak RSS, MB", "CPU, s", "ready after, s")
	for _, trial := range trials() {
		t.Run(trial.name, func(t *testing.T) {
			p := &program{name: trial.name}
			plain, changed, err := p.build(ctx, w.dir)
			if err != nil {
				t.Fatal(err)
			}
			before, after := w.measure(t, ctx, plain, trial), w.measure(t, ctx, changed, trial)
			w.compare(t, ctx, plain, changed, trial)
			fmt.Fprintf(&table, "%-16s %5d   %6.0f %6.0f %8.2f   %6.1f %6.1f %8.2f   %6.1f %6.1f\n", trial.name, p.lines,
				mb(before.peakRSS), mb(after.peakRSS), float64(after.peakRSS)/float64(before.peakRSS),
				before.cpu.Seconds(), after.cpu.Seconds(), after.cpu.Seconds()/before.cpu.Seconds(),
				before.ready.Seconds(), after.ready.Seconds())
		})
	}
	t.Logf("as it is, changed, and the one by the other\n%s", table.String())
}

func mb(n int64) float64 { return float64(n) / (1 << 20) }

// measure runs a program until it knows everything.
func (w *world) measure(t *testing.T, ctx context.Context, binary string, trial trial) usage {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	s, err := start(binary, trial.name, w.kubeconfig, trial.args...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.await(ctx, w.pods.Len())
	ready := time.Since(s.began)
	u := s.end()
	if u.ready = ready; err != nil {
		t.Fatal(err)
	}
	return u
}

// compare runs both programs through changes, and holds what they know at the end against each other.
func (w *world) compare(t *testing.T, ctx context.Context, plain, changed string, trial trial) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	count := w.pods.Len()
	var both [2]*subject
	for i, binary := range []string{plain, changed} {
		s, err := start(binary, trial.name, w.kubeconfig, trial.args...)
		if err != nil {
			t.Fatal(err)
		}
		defer s.end()
		both[i] = s
		if _, err := s.await(ctx, count); err != nil {
			t.Fatal(err)
		}
	}
	last := w.churn(t, ctx, 300)
	for {
		a, b := both[0].knows(t, last), both[1].knows(t, last)
		if a != nil && bytes.Equal(a, b) {
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("they do not come to know the same: %s", difference(a, b))
		}
	}
}

// knows is all that a program knows, once the last change is part of that; nil before.
func (s *subject) knows(t *testing.T, last string) []byte {
	t.Helper()
	var all json.RawMessage
	if err := s.question(report.AskAll, &all); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(all, []byte(last)) {
		return nil
	}
	return all
}

// difference is one thing that is not the same in both.
func difference(a, b []byte) string {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return "one of them has not seen the last change"
	}
	for name := range x {
		if !bytes.Equal(x[name], y[name]) {
			return fmt.Sprintf("%s: %s and %s", name, x[name], y[name])
		}
	}
	return fmt.Sprintf("%d and %d", len(x), len(y))
}
