//go:build unix

package command

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

// TestUntilSignal: a signal ends the context, whose cause distinguishes an interrupt from SIGTERM.
func TestUntilSignal(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ctx, stop := untilSignal()
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if got := errors.Is(context.Cause(ctx), ErrInterrupted); got != (s == syscall.SIGINT) {
			t.Errorf("%v: %v", s, context.Cause(ctx))
		}
		stop()
	}
}
