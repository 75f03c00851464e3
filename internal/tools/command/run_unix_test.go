//go:build unix

package command

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestUntilSignal checks that a signal ends the context, and that the context's cause distinguishes
// an interrupt from SIGTERM.
func TestUntilSignal(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		ctx, stop := untilSignal()
		check.NoError(t, syscall.Kill(os.Getpid(), s))
		<-ctx.Done()
		if got := errors.Is(context.Cause(ctx), ErrInterrupted); got != (s == syscall.SIGINT) {
			t.Errorf("%v: %v", s, context.Cause(ctx))
		}
		stop()
	}
}
