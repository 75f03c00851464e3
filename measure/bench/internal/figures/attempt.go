package figures

import "fmt"

// aborted is the value of the panic with which Check ends an attempt.
type aborted struct{ error }

// Attempt runs f, the steps of a measurement. It returns the error with which Check, Require or
// Must ended f, or nil. The functions that f calls therefore need not return errors. Check, Require
// and Must end only the attempt of their own goroutine, so each goroutine that calls them needs an
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

// Check ends the attempt if err is not nil. The parameter what is optional: the name of the failed
// action. Check adds this name to the error.
func Check(err error, what ...any) {
	switch {
	case err == nil:
	case len(what) > 0:
		panic(aborted{fmt.Errorf("%s: %w", fmt.Sprint(what...), err)})
	default:
		panic(aborted{err})
	}
}

// Require ends the attempt with err unless met is true.
func Require(met bool, err error) {
	if !met {
		Check(err)
	}
}

// Must returns v, or ends the attempt if err is not nil.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}
