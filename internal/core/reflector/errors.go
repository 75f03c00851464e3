package reflector

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// These errors say why a reflector is not current. Every Status.Err is an *Error in which errors.Is
// finds exactly one of them, and errors.As finds the cause. None of them ends a reflector: it
// retries.
var (
	// ErrUnauthorized is set when the server does not accept the credentials (401).
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is set when the client may not list or watch the resource (403).
	ErrForbidden = errors.New("forbidden")
	// ErrUnknownResource is set when the server does not have the resource, or not yet (404).
	ErrUnknownResource = errors.New("the server has no such resource")
	// ErrMethodNotAllowed is set when the server has the resource, but does not allow clients to
	// list it, or to watch it (405).
	ErrMethodNotAllowed = errors.New("the server does not allow the verb")
	// ErrRejected is set when the server refuses the request because of its content (400, 406,
	// 422), mostly because of a field selector.
	ErrRejected = errors.New("the server refuses the request")
	// ErrTooManyRequests is set when the server asks the client to try later (429).
	ErrTooManyRequests = errors.New("the server asks to try later")
	// ErrExpired is set when the server no longer has the changes since the requested
	// resourceVersion, or the revision of a paged list (410).
	ErrExpired = errors.New("the resource version is too old")
	// ErrServerBehind is set when the server has not reached the requested resourceVersion (504
	// ResourceVersionTooLarge).
	ErrServerBehind = errors.New("the server is behind the resource version")
	// ErrServer is set when the server, or a proxy in front of it, failed (any other 5xx).
	ErrServer = errors.New("the server failed")
	// ErrUnreachable is set when there was no answer, or a stream broke off.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrMalformed is set when a body, or an object in it, cannot be read. The error names the
	// offset.
	ErrMalformed = errors.New("the answer cannot be read")
	// ErrEncoding is set when the answer is not in Config.Encoding and there is no
	// Config.Transcode.
	ErrEncoding = errors.New("the answer is in another encoding")
	// ErrNoBookmark is set when the server did not end its initial events with a bookmark (mode
	// WatchList).
	ErrNoBookmark = errors.New("the server sent no bookmark after the initial events")
	// ErrEnded is set when the server ends watches as soon as they begin.
	ErrEnded = errors.New("the server ends watches at once")
	// ErrSilent is set when an open watch sent nothing for longer than a server waits between two
	// bookmarks, and the server did not answer a probe. Status.Heard says how old the state may be.
	ErrSilent = errors.New("nothing is heard from the server")
	// ErrWentBack is set when the server is at an older resourceVersion than one that it reported
	// before. The server was restored from a backup, or it is a different server.
	ErrWentBack = errors.New("the server went back in time")
)

// ErrRunning is returned by Run while another Run is under way.
var ErrRunning = errors.New("the reflector is running")

// Error says why a request of the reflector failed.
type Error struct {
	Phase    Phase // the phase in which it failed: Asking, Listing or Watching
	Sentinel error // one of this package's sentinels
	Err      error // the cause; nil when Sentinel says everything
	// Request says that a request failed, or the body of a LIST. If it is false, the stream of a
	// WATCH failed, or the server reported something that cannot be correct.
	Request bool
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %v", e.Phase, e.Sentinel)
	}
	return fmt.Sprintf("%s: %v: %v", e.Phase, e.Sentinel, e.Err)
}

// Unwrap returns the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Sentinel}
	}
	return []error{e.Sentinel, e.Err}
}

// classify wraps an error from source, wire or store with its sentinel.
func classify(phase Phase, err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if errors.Is(err, ErrNoBookmark) { // the deadline, through the request's context
		return &Error{Phase: phase, Sentinel: ErrNoBookmark}
	}
	return &Error{Phase: phase, Sentinel: sentinelOf(err), Err: err}
}

func sentinelOf(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return sentinelOfStatus(status)
	}
	if _, ok := errors.AsType[*source.RequestError](err); ok {
		// The stream may also have broken inside an object. The offset that wire then reports does not
		// matter.
		if errors.Is(err, source.ErrMediaType) {
			return ErrMalformed
		}
		return ErrUnreachable
	}
	if _, ok := errors.AsType[*wire.SyntaxError](err); ok {
		return ErrMalformed
	}
	return ErrUnreachable
}

func sentinelOfStatus(status *apierrors.StatusError) error {
	if apierrors.HasStatusCause(status, metav1.CauseTypeResourceVersionTooLarge) {
		return ErrServerBehind
	}
	if apierrors.IsGone(status) || apierrors.IsResourceExpired(status) {
		return ErrExpired
	}
	switch status.ErrStatus.Code {
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusNotFound:
		return ErrUnknownResource
	case http.StatusMethodNotAllowed:
		return ErrMethodNotAllowed
	case http.StatusTooManyRequests:
		return ErrTooManyRequests
	}
	if status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500 {
		return ErrRejected
	}
	return ErrServer
}
