package weir

import (
	"errors"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/store"
)

// What keeps an informer from being current. They are the causes of Err, of Status.Err and of what the waiting calls
// return; test for them with errors.Is. None of them ends an informer: it tries again and recovers by itself.
var (
	ErrForbidden       = reflector.ErrForbidden       // 403: RBAC does not let the informer list or watch
	ErrUnauthorized    = reflector.ErrUnauthorized    // 401: the credentials are not accepted
	ErrUnknownResource = reflector.ErrUnknownResource // 404: the server does not know the resource (yet)
	ErrNoBookmark      = reflector.ErrNoBookmark      // the server never sent the initial-events-end bookmark
	ErrExpired         = reflector.ErrExpired         // 410: the resourceVersion or the continue token is too old
	ErrAhead           = reflector.ErrAhead           // the server has not reached what is held: a replica that lags, perhaps
	ErrSilent          = reflector.ErrSilent          // nothing was heard for 90 s, and the server does not answer
	ErrWentBack        = reflector.ErrWentBack        // the server's state is older than what it answered before
	ErrMalformed       = reflector.ErrMalformed       // a body that is not what it says it is
	ErrUnreachable     = reflector.ErrUnreachable     // no answer at all
	ErrTooManyRequests = reflector.ErrTooManyRequests // 429: the server asks for less
	ErrRejected        = reflector.ErrRejected        // 400, 422: mostly a field selector that the resource has not
	ErrServer          = reflector.ErrServer          // 5xx: the server, or a proxy before it, failed
	ErrEncoding        = reflector.ErrEncoding        // the answer is in an encoding that cannot be made T's
)

var (
	// ErrNotFound: the informer does not hold the object.
	ErrNotFound = errors.New("not found")
	// ErrNotSynced: a wait ended before the informer had synced. It wraps the informer's error where there is one.
	ErrNotSynced = engine.ErrNotSynced
	// ErrStopped: the informer has been stopped.
	ErrStopped = engine.ErrStopped
	// ErrReleased: the lease was released.
	ErrReleased = errors.New("released")
	// ErrRunning: Run was called a second time, or on an informer that its factory runs.
	ErrRunning = engine.ErrRunning
	// ErrHandlerStuck: a handler did not return within Options.StopTimeout after the informer was stopped.
	ErrHandlerStuck = engine.ErrHandlerStuck
	// ErrOptions: an informer cannot be made of these options.
	ErrOptions = errors.New("invalid options")
	// ErrIndexExists: an index of that name is there already.
	ErrIndexExists = store.ErrIndexExists
	// ErrUnknownIndex: there is no index of that name.
	ErrUnknownIndex = store.ErrUnknownIndex
)

// PanicError is a panic that a handler raised.
type PanicError = delivery.PanicError
