package weir

import (
	"errors"
	"fmt"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/store"
)

// These errors name the reason why an informer is not current. For each reflector that is not
// current, Err, Status.Err and the errors of the waiting calls wrap one of them, and the error that
// caused it, if there is one. Test for them with errors.Is. None of them ends an informer: it
// retries, and recovers when the cause is gone.
var (
	// ErrForbidden is returned when the server answers 403: RBAC does not allow the list or watch.
	ErrForbidden = reflector.ErrForbidden
	// ErrUnauthorized is returned when the server answers 401: it does not accept the credentials.
	ErrUnauthorized = reflector.ErrUnauthorized
	// ErrUnknownResource is returned when the server answers 404: it does not serve the resource
	// (yet).
	ErrUnknownResource = reflector.ErrUnknownResource
	// ErrMethodNotAllowed is returned when the server answers 405: the resource does not support list
	// or watch.
	ErrMethodNotAllowed = reflector.ErrMethodNotAllowed
	// ErrNoBookmark is returned when the server did not send the initial-events-end bookmark in time.
	ErrNoBookmark = reflector.ErrNoBookmark
	// ErrExpired is returned when the server answers 410: the resourceVersion or continue token is too
	// old.
	ErrExpired = reflector.ErrExpired
	// ErrServerBehind is returned when the server has not reached the informer's resourceVersion. It
	// may be a replica that lags.
	ErrServerBehind = reflector.ErrServerBehind
	// ErrNoContact is returned when the server sent nothing for 90 s and does not answer a probe.
	ErrNoContact = reflector.ErrSilent
	// ErrWentBack is returned when the server's state is older than a state that it sent before.
	ErrWentBack = reflector.ErrWentBack
	// ErrMalformed is returned when a response body cannot be parsed, or not in full.
	ErrMalformed = reflector.ErrMalformed
	// ErrUnreachable is returned when the server does not answer.
	ErrUnreachable = reflector.ErrUnreachable
	// ErrTooManyRequests is returned when the server answers 429 to reduce its load.
	ErrTooManyRequests = reflector.ErrTooManyRequests
	// ErrRejected is returned when the server answers 400, 406 or 422, usually because the resource
	// does not support a field selector.
	ErrRejected = reflector.ErrRejected
	// ErrServer is returned when the server, or a proxy in front of it, answers 5xx.
	ErrServer = reflector.ErrServer
	// ErrWatchClosed is returned when the server ends watches as soon as they start.
	ErrWatchClosed = reflector.ErrEnded
	// ErrEncoding is returned when the server answers in an encoding that cannot be converted to T's.
	ErrEncoding = reflector.ErrEncoding
)

// Calls return these errors. Test for them with errors.Is.
var (
	// ErrNotFound is returned for an object that the informer does not store.
	ErrNotFound = errors.New("not found")
	// ErrNotSynced is returned when a wait ends before the informer has synced. The error also wraps
	// the informer's Err, if it has one.
	ErrNotSynced = engine.ErrNotSynced
	// ErrStopped is returned by Run and Handle after a Run has ended, by waits that the end of Run
	// interrupts, and by a factory after Shutdown.
	ErrStopped = engine.ErrStopped
	// ErrReleased is returned by a shared informer after Release.
	ErrReleased = errors.New("released")
	// ErrRunning is returned by Run while another Run is active.
	ErrRunning = engine.ErrRunning
	// ErrHandlerStuck is returned when a handler did not return within Options.StopTimeout after the
	// informer stopped.
	ErrHandlerStuck = engine.ErrHandlerStuck
	// ErrInvalidOptions is returned when options are invalid.
	ErrInvalidOptions = errors.New("invalid options")
	// ErrInvalidResourceVersion is returned by WaitForResourceVersion for a version that is not an
	// integer and so cannot be compared.
	ErrInvalidResourceVersion = store.ErrInvalidResourceVersion
	// ErrIndexExists is returned when another index has the same name.
	ErrIndexExists = store.ErrIndexExists
	// ErrUnknownIndex is returned when no index has the name.
	ErrUnknownIndex = store.ErrUnknownIndex
)

var errNoConfig = optionsError(errors.New("no rest.Config"))

// optionsError wraps err in ErrInvalidOptions.
func optionsError(err error) error { return fmt.Errorf("%w: %w", ErrInvalidOptions, err) }
