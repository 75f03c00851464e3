package testenv

import (
	"context"
	"errors"
	"testing"
	"time"
)

// maxPause limits the pause between two checks. Pauses grow up to it from a millisecond: a
// condition that soon holds is found soon, and one that takes long is not checked too often.
const maxPause = 50 * time.Millisecond

var errNot = errors.New("it does not hold")

// Eventually waits until cond holds, which nothing signals: it checks repeatedly. If ctx ends
// first, it fails the test with what it waited for.
func Eventually(t testing.TB, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	EventuallyNoError(t, ctx, what, func() error {
		if !cond() {
			return errNot
		}
		return nil
	})
}

// EventuallyNoError waits until ask returns no error. If ctx ends first, it fails the test with
// what it waited for and the last error.
func EventuallyNoError(t testing.TB, ctx context.Context, what string, ask func() error) {
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
