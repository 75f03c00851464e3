package clientgo

import (
	"errors"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
)

// retryAfter moves the Retry-After header of a refusal into its error. client-go's REST client
// repeats a request that was refused with this header up to ten times before it returns the
// refusal; the reflector would only then learn that a server has not reached a resourceVersion. The
// reflector decides when to retry. Requests that a ListerWatcher sends after the call has returned,
// as client-go's RetryWatcher does, are not the reflector's and are not changed.
type retryAfter struct {
	seconds atomic.Int32
	ended   atomic.Bool // the call has returned
}

// stripRetryAfter removes the header from the response to an informer's request.
func stripRetryAfter(req *http.Request, resp *http.Response) {
	r := valueOf[retryAfter](req.Context())
	if r == nil || r.ended.Load() || resp == nil || resp.StatusCode < http.StatusBadRequest {
		return
	}
	if seconds := source.RetryAfter(resp.Header.Get("Retry-After")); seconds > 0 {
		r.seconds.Store(seconds)
	}
	resp.Header.Del("Retry-After")
}

// brokenError hides that a connection broke, or could not be opened in time. client-go's REST
// client repeats a LIST whose connection broke up to ten times, and returns an empty WATCH for it.
// The reflector decides that too.
type brokenError struct {
	err   error
	shown atomic.Bool // since client-go has returned it
}

func (e *brokenError) Error() string {
	if e.shown.Load() {
		return e.err.Error()
	}
	return "the request broke off"
}

// Is finds the cause, for callers. client-go's REST client looks for it with errors.As.
func (e *brokenError) Is(target error) bool { return errors.Is(e.err, target) }

func (e *brokenError) Unwrap() error {
	if e.shown.Load() {
		return e.err
	}
	return nil
}

// endsWatch reports whether client-go's REST client turns an error into an empty watch, after it
// has repeated the WATCH ten times, each of which may take half a minute if no server answers.
func endsWatch(err error) bool { return utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) }

// hideBroken hides err if the connection of an informer's request broke, or a WATCH took too long
// to start.
func hideBroken(req *http.Request, err error) error {
	r := valueOf[retryAfter](req.Context())
	if r == nil || r.ended.Load() {
		return err
	}
	switch {
	case utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err):
	case utilnet.IsTimeout(err) && request.QueryOf(req.URL).Flag("watch"): // a LIST is not sent again
	default:
		return err
	}
	return &brokenError{err: err}
}

// restore shows the hidden error, and hides none from now on. It puts the header's value into the
// error that the client created from the response, unless the body had a longer one.
func (r *retryAfter) restore(err error) error {
	r.ended.Store(true)
	if broken, ok := errors.AsType[*brokenError](err); ok {
		broken.shown.Store(true)
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	seconds := r.seconds.Load()
	if !ok || seconds == 0 {
		return err
	}
	if status.ErrStatus.Details == nil {
		status.ErrStatus.Details = &metav1.StatusDetails{}
	}
	status.ErrStatus.Details.RetryAfterSeconds = max(status.ErrStatus.Details.RetryAfterSeconds, seconds)
	return err
}
