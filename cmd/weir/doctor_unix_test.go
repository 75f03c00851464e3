//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestDoctorInterruptedAtPipe: an interrupt ends the command while a pipe has no writer.
func TestDoctorInterruptedAtPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	check.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"doctor", pipe})
	interrupt()
	check.ErrorIs(t, root.ExecuteContext(ctx), errInterrupted)
	testenv.Eventually(t, t.Context(), "the goroutine that opens the pipe, which this ends", func() bool {
		w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil && w.Close() == nil
	})
}
