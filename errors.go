package weir

import (
	"errors"
	"fmt"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/store"
)

// These errors name the reason why an informer is not current: why it may store older versions of
// objects than the server. Informer.Err and the errors of interrupted waits wrap one of these
// errors for each reflector that is not current, together with the underlying error if there is
// one. Status.Err wraps the error of one reflector. Test for these errors with errors.Is. None of
// them ends an informer: the informer retries, and recovers when the cause no longer exists.
var (
	// ErrForbidden is returned when the server answers 403: RBAC does not permit the LIST or WATCH.
	ErrForbidden = reflector.ErrForbidden
	// ErrUnauthorized is returned when the server answers 401: it rejects the credentials.
	ErrUnauthorized = reflector.ErrUnauthorized
	// ErrUnknownResource is returned when the server answers 404: it does not serve the resource, or
	// does not serve it yet.
	ErrUnknownResource = reflector.ErrUnknownResource
	// ErrMethodNotAllowed is returned when the server answers 405: the resource does not support LIST
	// or WATCH.
	ErrMethodNotAllowed = reflector.ErrMethodNotAllowed
	// ErrNoBookmark is returned when the server accepts a WATCH with initial events, but does not send
	// the bookmark that ends the initial events. See ListWatch.BookmarkDeadline.
	ErrNoBookmark = reflector.ErrNoBookmark
	// ErrExpired is returned when the server answers 410: the resourceVersion or continue token is too
	// old.
	ErrExpired = reflector.ErrExpired
	// ErrServerBehind is returned when the server's state is older than the informer's
	// resourceVersion, for example because the server is a replica that lags.
	ErrServerBehind = reflector.ErrServerBehind
	// ErrNoContact is returned when the server has sent nothing for 90 s and does not answer a probe.
	ErrNoContact = reflector.ErrSilent
	// ErrWentBack is returned when the server's state is older than a state that it sent before, for
	// example after a restore from a backup.
	ErrWentBack = reflector.ErrWentBack
	// ErrMalformed is returned when a response body, or a part of it, cannot be parsed.
	ErrMalformed = reflector.ErrMalformed
	// ErrUnreachable is returned when the server does not answer.
	ErrUnreachable = reflector.ErrUnreachable
	// ErrTooManyRequests is returned when the server answers 429 to reduce its load.
	ErrTooManyRequests = reflector.ErrTooManyRequests
	// ErrRejected is returned when the server answers 400, 406 or 422. The usual reason is a field
	// selector that the resource does not support.
	ErrRejected = reflector.ErrRejected
	// ErrServer is returned when the server, or a proxy in front of it, answers 5xx.
	ErrServer = reflector.ErrServer
	// ErrWatchClosed is returned when the server ends each watch immediately after its start.
	ErrWatchClosed = reflector.ErrEnded
	// ErrEncoding is returned when the server answers in an encoding that the informer cannot convert
	// to the encoding in which it stores objects (Informer.Encoding).
	ErrEncoding = reflector.ErrEncoding
)

// These errors are returned by functions and methods of this package. Test for them with errors.Is.
var (
	// ErrNotFound is returned when the informer does not store the object.
	ErrNotFound = errors.New("not found")
	// ErrNotSynced is returned when a wait for the sync ends before the informer or the handler has
	// synced. The error also wraps the informer's Err, if it has one.
	ErrNotSynced = engine.ErrNotSynced
	// ErrStopped is returned by Run and Handle after a Run has ended, by waits that the end of Run
	// interrupts, and by Acquire after Factory.Shutdown.
	ErrStopped = engine.ErrStopped
	// ErrReleased is returned by Handle and AddIndex of a SharedInformer after its Release.
	ErrReleased = errors.New("released")
	// ErrRunning is returned by Run while another Run is active.
	ErrRunning = engine.ErrRunning
	// ErrHandlerStuck is returned by Run when a handler call did not return within Options.StopTimeout
	// after the informer stopped.
	ErrHandlerStuck = engine.ErrHandlerStuck
	// ErrInvalidOptions is returned when options or other arguments are invalid.
	ErrInvalidOptions = errors.New("invalid options")
	// ErrInvalidResourceVersion is returned by WaitForResourceVersion for a version that is not an
	// integer. Such versions cannot be compared.
	ErrInvalidResourceVersion = store.ErrInvalidResourceVersion
	// ErrIndexExists is returned when the informer already has an index of the same name.
	ErrIndexExists = store.ErrIndexExists
	// ErrUnknownIndex is returned when the informer has no index of the requested name.
	ErrUnknownIndex = store.ErrUnknownIndex
)

var errNoConfig = optionsError(errors.New("no rest.Config"))

func optionsError(err error) error { return fmt.Errorf("%w: %w", ErrInvalidOptions, err) }
