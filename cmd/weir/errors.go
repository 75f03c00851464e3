package main

import (
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/reflector"
)

// errInterrupted is what a command ends with that was interrupted before it had anything to show.
var errInterrupted = errors.New("interrupted")

// plain makes an error of a request one that a person reads: what the server said, or that it did not answer.
func plain(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return plainStatus(err, status)
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

func plainStatus(err error, status *apierrors.StatusError) error {
	switch {
	case apierrors.IsForbidden(status), errors.Is(err, weir.ErrForbidden):
		return fmt.Errorf("forbidden: %s", status.ErrStatus.Message)
	case apierrors.IsUnauthorized(status):
		return fmt.Errorf("the server does not accept the credentials: %s", status.ErrStatus.Message)
	}
	return fmt.Errorf("the server answered: %s", status.ErrStatus.Message)
}

// patience is how many tries may fail in a row before the first sync, of those that another try may mend.
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
