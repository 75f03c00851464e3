package main

import (
	"context"
	"io"
	"testing"
)

// start runs the command in this process and returns a function that interrupts it and waits for
// its end.
func start(t *testing.T, stdout, stderr io.Writer, args ...string) (end func() error) {
	t.Helper()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return <-ended
	}
}
