package main

import (
	"errors"
	"fmt"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/command"
)

// errInterrupted is what a command ends with that was interrupted before it had anything to show.
var errInterrupted = errors.New("interrupted")

// patience is how many tries may fail in a row before the first sync, of those that another try may
// mend.
const patience = 3

// hopeless reports whether an error before the first sync is one that waiting does not mend.
func hopeless(s weir.Status) bool {
	if skips(s) {
		return false
	}
	for _, never := range []error{
		weir.ErrForbidden, weir.ErrUnauthorized, weir.ErrUnknownResource, weir.ErrMethodNotAllowed, weir.ErrMalformed, weir.ErrRejected, weir.ErrEncoding,
	} {
		if errors.Is(s.Err, never) {
			return true
		}
	}
	return errors.Is(s.Err, weir.ErrUnreachable) && s.Attempts >= patience
}

// skips reports whether nothing is wrong but that objects cannot be read, which are left out.
func skips(s weir.Status) bool { return s.Err != nil && s.Err == s.SkippedErr }

// troubleText says what is wrong, and what is done about it, on one line.
func troubleText(s weir.Status) string {
	why := command.OneLine(command.Explain(s.Err))
	if skips(s) {
		return fmt.Sprintf("%s cannot be read: %s", plural(int64(s.Skipped), "object"), why)
	}
	return why + "; trying again"
}
