// Package eventually waits in tests for what nothing signals: it asks again and again.
package eventually

import (
	"context"
	"errors"
	"testing"
	"time"
)

// maxPause bounds the pause between two questions. Pauses grow up to it from a millisecond: what
// comes at once is not waited for long, and what takes long is not asked too often.
const maxPause = 50 * time.Millisecond

var errNot = errors.New("it does not hold")

// True waits until cond holds. It fails the test, saying what it waited for, if ctx ends first.
func True(t testing.TB, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	NoError(t, ctx, what, func() error {
		if !cond() {
			return errNot
		}
		return nil
	})
}

// NoError waits until ask returns no error. It fails the test, saying what it waited for and the
// last error, if ctx ends first.
func NoError(t testing.TB, ctx context.Context, what string, ask func() error) {
	t.Helper()
	pause := time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for err := ask(); err != nil; err = ask() {
		select {
		case <-timer.C:
			pause = min(2*pause, maxPause)
			timer.Reset(pause)
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s: %v: %v", what, context.Cause(ctx), err)
		}
	}
}
