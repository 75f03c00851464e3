// Package attempt ends a sequence of steps at its first error, in one place. A measurement is such
// a sequence: of requests, orders and readings. Its functions return no errors. Check and Must
// panic with the error, and Do returns it.
package attempt

import "fmt"

// aborted is the value of the panic that ends an attempt.
type aborted struct{ error }

// Do runs f and returns the error with which Check or Must ended it, or nil. They end the attempt
// of their own goroutine only, so each goroutine that calls them needs a Do.
func Do(f func()) (err error) {
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

// Check ends the attempt if there is an error. It wraps the error in what failed, if that is given.
func Check(err error, what ...any) {
	switch {
	case err == nil:
	case len(what) > 0:
		panic(aborted{fmt.Errorf("%s: %w", fmt.Sprint(what...), err)})
	default:
		panic(aborted{err})
	}
}

// Must returns v, or ends the attempt if there is an error.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}
