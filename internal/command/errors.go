package command

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/reflector"
)

// UsageError is an error of whoever typed the command, not of the world.
type UsageError struct{ err error }

func (e UsageError) Error() string { return e.err.Error() }
func (e UsageError) Unwrap() error { return e.err }

// Usage makes a UsageError of an error.
func Usage(err error) error { return UsageError{err} }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// NoArgs returns a UsageError if a command that takes no arguments got one. path is what the
// command is called.
func NoArgs(path string, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no argument, got %q", path, args[0])
	}
	return nil
}

// Explain makes an error of a request one that a person reads: what the server said, or that it did
// not answer.
func Explain(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return explainStatus(err, status)
	}
	if own, ok := errors.AsType[*reflector.Error](err); ok {
		if own.Err == nil {
			return own.Kind
		}
		return fmt.Errorf("%w: %w", own.Kind, own.Err)
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := url.Parse(request.URL); parseErr == nil {
			return fmt.Errorf("no answer from the server at %s://%s: %w", at.Scheme, at.Host, request.Err)
		}
	}
	return err
}

func explainStatus(err error, status *apierrors.StatusError) error {
	switch {
	case apierrors.IsForbidden(status), errors.Is(err, weir.ErrForbidden):
		return fmt.Errorf("forbidden: %s", status.ErrStatus.Message)
	case apierrors.IsUnauthorized(status):
		return fmt.Errorf("the server does not accept the credentials: %s", status.ErrStatus.Message)
	}
	return fmt.Errorf("the server answered: %s", status.ErrStatus.Message)
}

// OneLine returns an error on one line.
func OneLine(err error) string { return OneLineText(err.Error()) }

// OneLineText returns a text on one line.
func OneLineText(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")), " ")
}
