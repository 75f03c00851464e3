package figures

import "fmt"

// aborted is the value of the panic that ends an attempt.
type aborted struct{ error }

// Attempt runs the steps of a measurement, f, and returns the error with which Check, Require or
// Must ended it, or nil. So the requests, orders and readings that f calls return no errors. These
// functions end the attempt of their own goroutine only, so each goroutine that calls them needs an
// Attempt.
func Attempt(f func()) (err error) {
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

// Require ends the attempt with an error unless a condition is met.
func Require(met bool, err error) {
	if !met {
		Check(err)
	}
}

// Must returns v, or ends the attempt if there is an error.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}
