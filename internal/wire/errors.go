package wire

import (
	"errors"
	"fmt"
)

var (
	// ErrMalformed says that bytes do not follow their encoding, or that this package refuses them
	// (see the package comment). It is always wrapped in a *SyntaxError.
	ErrMalformed = errors.New("malformed")
	// ErrTooLarge says that an object is larger than Limits.MaxObject. It is always wrapped in a
	// *SyntaxError.
	ErrTooLarge = errors.New("too large")
)

// SyntaxError says what is wrong with a body, or with one object, and where. Err is ErrMalformed,
// ErrTooLarge, io.ErrUnexpectedEOF for a body that ends too early, or what the underlying reader
// returned.
type SyntaxError struct {
	Offset int64  // bytes from the start of the decoded body, or of the object
	What   string // what was being read, and what was wrong with it
	Err    error
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("offset %d: %s: %v", e.Offset, e.What, e.Err)
}

func (e *SyntaxError) Unwrap() error { return e.Err }

// ItemError says that one complete item of a list, or the object of one complete event, cannot be
// read. The reader goes on behind it. It wraps a *SyntaxError.
type ItemError struct{ Err error }

func (e *ItemError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the item.
func (e *ItemError) Unwrap() error { return e.Err }

// final reports whether a reader that returned err cannot go on.
func final(err error) bool {
	_, ok := err.(*ItemError)
	return !ok
}

func malformed(offset int64, what string) error {
	return &SyntaxError{Offset: offset, What: what, Err: ErrMalformed}
}

func malformedf(offset int64, format string, args ...any) error {
	return malformed(offset, fmt.Sprintf(format, args...))
}
