package main

import (
	"errors"
	"fmt"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/tools/command"
)

// errInterrupted is the error of a command that was interrupted before it printed anything.
var errInterrupted = errors.New("interrupted")

// patience is how many consecutive failures are tolerated before the first sync, if a retry may
// succeed.
const patience = 3

// hopeless reports whether waiting cannot resolve an error before the first sync.
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

// skips reports whether the only error is that objects cannot be read and are left out.
func skips(s weir.Status) bool { return s.Err != nil && s.Err == s.SkippedErr }

// troubleText returns one line about the error and the informer's reaction.
func troubleText(s weir.Status) string {
	why := command.OneLine(command.Explain(s.Err))
	if skips(s) {
		return fmt.Sprintf("%s cannot be read: %s", plural(int64(s.Skipped), "object"), why)
	}
	return why + "; trying again"
}
