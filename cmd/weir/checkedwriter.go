package main

import "io"

// writeError is the error of a write to stdout.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// checkedWriter passes its input on. It sends the error of a failed write, unless another error
// waits to be received.
type checkedWriter struct {
	to     io.Writer
	failed chan error // of capacity one
}

func newCheckedWriter(to io.Writer) checkedWriter { return checkedWriter{to, make(chan error, 1)} }

func (w checkedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err == nil {
		return n, nil
	}
	err = writeError{err}
	select {
	case w.failed <- err:
	default:
	}
	return n, err
}
