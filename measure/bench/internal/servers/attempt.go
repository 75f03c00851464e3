package servers

import (
	"context"
	"fmt"
	"time"
)

// A measurement is a sequence of requests and readings, and its first error ends it. Its functions
// return no errors: check and must panic with an aborted, and attempt returns the error in it. A
// goroutine needs an attempt of its own.
type aborted struct{ error }

// attempt runs f and returns the error with which check or must ended it, or nil.
func attempt(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case aborted:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// check ends the attempt that calls it if there is an error. It wraps the error in what failed, if
// that is given.
func check(err error, what ...any) {
	switch {
	case err == nil:
	case len(what) > 0:
		panic(aborted{fmt.Errorf("%s: %w", fmt.Sprint(what...), err)})
	default:
		panic(aborted{err})
	}
}

// must returns v, or ends the attempt that calls it if there is an error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// pause blocks for a time. If ctx ends first, the error is its cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
