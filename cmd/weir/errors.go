package main

import (
	"errors"

	"github.com/weirproject/weir"
)

// errInterrupted is what a command ends with that was interrupted before it had anything to show.
var errInterrupted = errors.New("interrupted")

// patience is how many tries may fail in a row before the first sync, of those that another try may
// mend.
const patience = 3

// hopeless reports whether an error before the first sync is one that waiting does not mend.
func hopeless(s weir.Status) bool {
	for _, never := range []error{
		weir.ErrForbidden, weir.ErrUnauthorized, weir.ErrUnknownResource, weir.ErrMalformed, weir.ErrRejected, weir.ErrEncoding,
	} {
		if errors.Is(s.Err, never) {
			return true
		}
	}
	return errors.Is(s.Err, weir.ErrUnreachable) && s.Attempts >= patience
}
