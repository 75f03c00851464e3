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

// These errors say why a reflector is not current. Every Status.Err is an *Error. errors.Is finds
// exactly one of the errors below in it, and errors.As finds the cause. No error ends a reflector:
// it retries.
var (
	// ErrUnauthorized is set when the server does not accept the credentials (401).
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is set when the client may not list or watch the resource (403).
	ErrForbidden = errors.New("forbidden")
	// ErrUnknownResource is set when the server does not have the resource, or does not have it yet
	// (404).
	ErrUnknownResource = errors.New("the server has no such resource")
	// ErrMethodNotAllowed is set when the server has the resource, but does not allow clients to list
	// it, or to watch it (405).
	ErrMethodNotAllowed = errors.New("the server does not allow the verb")
	// ErrRejected is set when the server refuses the request because of its content (400, 406, 422 and
	// other 4xx), most often because of a field selector.
	ErrRejected = errors.New("the server refused the request")
	// ErrTooManyRequests is set when the server asks the client to try later (429).
	ErrTooManyRequests = errors.New("the server asks to retry later")
	// ErrExpired is set when the server no longer has the changes since the requested resourceVersion,
	// or no longer has the revision of a paged list (410).
	ErrExpired = errors.New("the resource version is too old")
	// ErrServerBehind is set when the server has not reached the requested resourceVersion (504 with
	// the cause ResourceVersionTooLarge), or reports a resourceVersion that is older than the store's.
	ErrServerBehind = errors.New("the server has not reached the resource version")
	// ErrServer is set when the server, or a proxy in front of it, failed (any other 5xx).
	ErrServer = errors.New("the server failed")
	// ErrUnreachable is set when there was no response, or when a stream ended with an error.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrMalformed is set when a body, or an object in it, cannot be decoded. The error contains the
	// offset.
	ErrMalformed = errors.New("the answer cannot be read")
	// ErrEncoding is set when the response does not have the encoding in Config.Encoding, and
	// Config.Transcode is nil.
	ErrEncoding = errors.New("the answer is in another encoding")
	// ErrNoBookmark is set in mode WatchList when the server did not end its initial events with a
	// bookmark.
	ErrNoBookmark = errors.New("the server sent no bookmark after the initial events")
	// ErrEnded is set when watches end within a second and have sent nothing, or end repeatedly before
	// their initial events are complete.
	ErrEnded = errors.New("the server ends watches immediately")
	// ErrSilent is set when an open watch sent nothing for longer than a server waits between two
	// bookmarks, and probes of the server failed. Status.Heard says how old the state may be.
	ErrSilent = errors.New("the server sends nothing")
	// ErrWentBack is set when the server's resourceVersion is older than one that it reported before.
	// The server was restored from a backup, or it is a different server.
	ErrWentBack = errors.New("the server went back in time")
)

// ErrRunning is returned by Run while another Run has not returned.
var ErrRunning = errors.New("the reflector is running")

// Error says why a request of the reflector failed.
type Error struct {
	Phase    Phase // the phase in which the request failed: Asking, Listing or Watching
	Sentinel error // one of this package's sentinels
	Err      error // the cause; nil if the sentinel says everything
	// Request is true if a request, or the body of a LIST, failed. It is false if the stream of a
	// WATCH failed, or if the server reported something that cannot be correct.
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

// classify returns an *Error for an error of package source, wire or store, with the sentinel for
// it.
func classify(phase Phase, err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if errors.Is(err, ErrNoBookmark) { // the deadline ended the request's context with this cause
		return &Error{Phase: phase, Sentinel: ErrNoBookmark}
	}
	return &Error{Phase: phase, Sentinel: sentinelOf(err), Err: err}
}

func sentinelOf(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return sentinelOfStatus(status)
	}
	if _, ok := errors.AsType[*source.RequestError](err); ok {
		// A stream that ended inside an object also causes an error of package wire, but the cause is
		// that the stream ended.
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
