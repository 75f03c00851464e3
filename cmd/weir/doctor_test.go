package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// TestDoctorInterrupted: an interrupt ends the command also while its standard input has nothing.
func TestDoctorInterrupted(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close() // what still reads ends
	ctx, interrupt := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"doctor", "-"})
	root.SetIn(in)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	if _, err := out.Write([]byte("{}\n")); err != nil { // it reads
		t.Fatal(err)
	}
	interrupt()
	select {
	case err := <-ended:
		if !errors.Is(err, errInterrupted) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for its standard input")
	}
}
