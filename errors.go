package weir

import (
	"errors"
	"fmt"

	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/store"
)

// These errors say what keeps an informer from being current. For each reflector that is not
// current, Err, Status.Err and the errors of the waiting calls wrap one of them, and the error of
// its cause, if there is one. Test for them with errors.Is. None of them ends an informer: it tries
// again and recovers by itself.
var (
	// ErrForbidden: 403, RBAC does not let the informer list or watch.
	ErrForbidden = reflector.ErrForbidden
	// ErrUnauthorized: 401, the credentials are not accepted.
	ErrUnauthorized = reflector.ErrUnauthorized
	// ErrUnknownResource: 404, the server does not know the resource (yet).
	ErrUnknownResource = reflector.ErrUnknownResource
	// ErrMethodNotAllowed: 405, the resource cannot be listed, or not watched.
	ErrMethodNotAllowed = reflector.ErrMethodNotAllowed
	// ErrNoBookmark: the server never sent the initial-events-end bookmark.
	ErrNoBookmark = reflector.ErrNoBookmark
	// ErrExpired: 410, the resourceVersion or the continue token is too old.
	ErrExpired = reflector.ErrExpired
	// ErrServerBehind: the server has not reached what is held. Perhaps it is a replica that lags.
	ErrServerBehind = reflector.ErrServerBehind
	// ErrSilent: nothing was heard for 90 s, and the server does not answer.
	ErrSilent = reflector.ErrSilent
	// ErrWentBack: the server's state is older than what it answered before.
	ErrWentBack = reflector.ErrWentBack
	// ErrMalformed: a body is not what it says it is.
	ErrMalformed = reflector.ErrMalformed
	// ErrUnreachable: there is no answer at all.
	ErrUnreachable = reflector.ErrUnreachable
	// ErrTooManyRequests: 429, the server asks for less.
	ErrTooManyRequests = reflector.ErrTooManyRequests
	// ErrRejected: 400, 406 or 422, mostly for a field selector that the resource has not.
	ErrRejected = reflector.ErrRejected
	// ErrServer: 5xx, the server, or a proxy before it, failed.
	ErrServer = reflector.ErrServer
	// ErrEnded: the server ends watches as soon as they begin.
	ErrEnded = reflector.ErrEnded
	// ErrEncoding: the answer is in an encoding that cannot be made T's.
	ErrEncoding = reflector.ErrEncoding
)

// These errors are returned by calls. Test for them with errors.Is.
var (
	// ErrNotFound is returned for an object that the informer does not hold.
	ErrNotFound = errors.New("not found")
	// ErrNotSynced is returned when a wait ended before the informer had synced. The error wraps
	// the informer's Err too, where there is one.
	ErrNotSynced = engine.ErrNotSynced
	// ErrStopped is returned by Run and Handle once a Run has ended, by waits that it ends, and by a
	// factory after Shutdown.
	ErrStopped = engine.ErrStopped
	// ErrReleased is returned when the lease was released.
	ErrReleased = errors.New("released")
	// ErrRunning is returned by Run while another Run is under way.
	ErrRunning = engine.ErrRunning
	// ErrHandlerStuck is returned when a handler did not return within Options.StopTimeout after
	// the informer was stopped.
	ErrHandlerStuck = engine.ErrHandlerStuck
	// ErrOptions is returned when an informer cannot be made of its options.
	ErrOptions = errors.New("invalid options")
	// ErrInvalidResourceVersion is returned by WaitForResourceVersion for one that is no integer, and
	// so cannot be compared.
	ErrInvalidResourceVersion = store.ErrInvalidResourceVersion
	// ErrIndexExists is returned when an index of that name is there already.
	ErrIndexExists = store.ErrIndexExists
	// ErrUnknownIndex is returned when there is no index of that name.
	ErrUnknownIndex = store.ErrUnknownIndex
)

var errNoConfig = optionsError(errors.New("no rest.Config"))

// optionsError makes an error of the options of what is wrong with them.
func optionsError(err error) error { return fmt.Errorf("%w: %w", ErrOptions, err) }
