package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/weirproject/weir/e2e/programs/report"
	"github.com/weirproject/weir/internal/podsim"
)

// observer is the trial of a program that comes to know all pods and writes nothing; it is the program's arguments. Both are measured
// alone until they know everything, and then run at once, through changes, after which they must know the same.
type observer []string

func (o observer) try(t *testing.T, ctx context.Context, plain, changed string) (before, after usage) {
	t.Helper()
	w := newWorld(t, ctx, podsim.New(*podsFlag, 1))
	before, after = o.measure(t, ctx, w, plain), o.measure(t, ctx, w, changed)
	o.compare(t, ctx, w, plain, changed)
	return before, after
}

// measure runs a program until it knows everything.
func (o observer) measure(t *testing.T, ctx context.Context, w *world, binary string) usage {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	s, err := start(binary, w.kubeconfig, o...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.await(ctx, w.pods.Len())
	u := s.end()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// compare runs both programs through changes, and holds what they know at the end against each other.
func (o observer) compare(t *testing.T, ctx context.Context, w *world, plain, changed string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	count := w.pods.Len()
	var both [2]*subject
	for i, binary := range []string{plain, changed} {
		s, err := start(binary, w.kubeconfig, o...)
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
