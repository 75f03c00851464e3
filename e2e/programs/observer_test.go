package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/programs/report"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// observer tests a program that only reads. First it measures the unchanged and the changed program
// one after the other, until each has received all objects. Then it runs both at the same time
// while objects change. Both must report the same objects at the end. The zero value tests a
// program that reports all pods.
type observer struct {
	args []string // command line arguments of the program
	// warmUp is set if the program's first run writes objects. The unchanged program then runs once
	// before the measurement.
	warmUp bool
	// prepare creates objects that the program needs in addition to the pods. It returns additional
	// command line arguments. It may be nil.
	prepare func(t *testing.T, ctx context.Context, w *world) (args []string)
	// count returns the number of objects that the program reports when it has received all of them.
	// If count is nil, the program reports as many objects as there are pods.
	count func(w *world) int
	// changes change objects, one after the other. After each, both programs must report the same
	// objects. If changes is empty, some pods change.
	changes []change
}

// change changes objects. It returns texts that a program reports only after it has received the
// last changes.
type change func(t *testing.T, ctx context.Context, w *world) (last []string)

func (o observer) try(t *testing.T, ctx context.Context, plain, changed string) (before, after usage) {
	t.Helper()
	w := newWorld(t, ctx, podsim.New(*podsFlag, 1))
	if o.prepare != nil {
		o.args = append(o.args, o.prepare(t, ctx, w)...)
	}
	if o.count == nil {
		o.count = func(w *world) int { return w.pods.Len() }
	}
	if o.changes == nil {
		o.changes = []change{func(t *testing.T, ctx context.Context, w *world) []string { return []string{w.churn(t, ctx, 300)} }}
	}
	if o.warmUp {
		o.measure(t, ctx, w, plain)
	}
	before, after = o.measure(t, ctx, w, plain), o.measure(t, ctx, w, changed)
	o.compare(t, ctx, w, plain, changed)
	return before, after
}

// measure runs a program until it has received all objects, and returns its resource usage.
func (o observer) measure(t *testing.T, ctx context.Context, w *world, binary string) usage {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	s, err := start(binary, w.kubeconfig, o.args...)
	check.NoError(t, err)
	err = s.await(ctx, o.count(w))
	u := s.end()
	check.NoError(t, err)
	return u
}

// compare runs both programs while objects change. It fails the test if the reports do not become
// equal within deadline.
func (o observer) compare(t *testing.T, ctx context.Context, w *world, plain, changed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	count := o.count(w)
	var both [2]*subject
	for i, binary := range []string{plain, changed} {
		s, err := start(binary, w.kubeconfig, o.args...)
		check.NoError(t, err)
		defer s.end()
		both[i] = s
		check.NoError(t, s.await(ctx, count))
	}
	for _, change := range o.changes {
		awaitEqual(t, ctx, both, change(t, ctx, w))
	}
}

// awaitEqual waits until both programs report the last changes and the same objects.
func awaitEqual(t *testing.T, ctx context.Context, both [2]*subject, last []string) {
	t.Helper()
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

// knows returns the program's report. It returns nil if the report does not yet contain the given
// texts.
func (s *subject) knows(t *testing.T, last []string) []byte {
	t.Helper()
	var all json.RawMessage
	check.NoError(t, s.question(report.AskAll, &all))
	for _, text := range last {
		if !bytes.Contains(all, []byte(text)) {
			return nil
		}
	}
	return all
}

// difference describes one difference between two reports.
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
