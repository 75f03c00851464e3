package testenv

import (
	"context"
	"errors"
	"testing"
	"time"
)

// maxPause is the maximum pause between two checks of a condition. Pauses start at a millisecond
// and double. So a test notices soon that a condition has become true, and checks it rarely if that
// takes long.
const maxPause = 50 * time.Millisecond

var errNot = errors.New("it does not hold")

// Eventually calls cond repeatedly until it returns true. Use it if no channel or signal reports
// the condition. If ctx ends first, Eventually ends the test with a message that contains the text
// in what.
func Eventually(t testing.TB, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	EventuallyNoError(t, ctx, what, func() error {
		if !cond() {
			return errNot
		}
		return nil
	})
}

// EventuallyNoError calls ask repeatedly until it returns nil. If ctx ends first, EventuallyNoError
// ends the test with a message that contains the text in what, and the last error.
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
