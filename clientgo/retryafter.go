package clientgo

import (
	"cmp"
	"errors"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
)

// retryAfter removes the Retry-After header from the error responses to an informer's requests, and
// later adds the header's value to the error. With the header, client-go's REST client would repeat
// the request up to ten times before it returns the error. But the reflector decides when to retry.
// It must receive some errors immediately, for example the error that a server has not reached a
// resourceVersion. retryAfter does not change the responses to requests that a ListerWatcher sends
// after its List or Watch has returned, as client-go's RetryWatcher does.
type retryAfter struct {
	seconds atomic.Int32
	ended   atomic.Bool // the ListerWatcher's call has returned
}

// stripRetryAfter removes the Retry-After header from the error response to an informer's request.
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

// brokenError wraps the error of a connection that broke, or could not be opened in time, and hides
// this error from client-go's REST client. The client would repeat a LIST with such an error up to
// ten times. For a WATCH with such an error, it would return an empty watch. But the reflector
// decides when to retry.
type brokenError struct {
	err   error
	shown atomic.Bool // true after client-go has returned the error
}

func (e *brokenError) Error() string {
	if e.shown.Load() {
		return e.err.Error()
	}
	return "the connection broke during the request"
}

// Is makes errors.Is find the hidden error. client-go's REST client uses errors.As, which does not
// find it.
func (e *brokenError) Is(target error) bool { return errors.Is(e.err, target) }

func (e *brokenError) Unwrap() error {
	if e.shown.Load() {
		return e.err
	}
	return nil
}

// endsWatch reports whether client-go's REST client returns an empty watch instead of the error.
// The client does so after it has repeated the WATCH ten times; each attempt can last half a minute
// if no server answers.
func endsWatch(err error) bool { return utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) }

// hideBroken wraps err in a brokenError if the connection of an informer's request broke, or if an
// informer's WATCH timed out.
func hideBroken(req *http.Request, err error) error {
	r := valueOf[retryAfter](req.Context())
	if r == nil || r.ended.Load() {
		return err
	}
	switch {
	case utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err):
	case utilnet.IsTimeout(err) && request.QueryOf(req.URL).Flag("watch"): // only WATCHes are repeated
	default:
		return err
	}
	return &brokenError{err: err}
}

// restore makes an error visible again that hideBroken has hidden, and ends the hiding of errors
// and headers. It adds the value of the removed Retry-After header to the error that the client
// built from the response. If the response body had a larger value, that value remains.
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
	status.ErrStatus.Details = cmp.Or(status.ErrStatus.Details, &metav1.StatusDetails{})
	status.ErrStatus.Details.RetryAfterSeconds = max(status.ErrStatus.Details.RetryAfterSeconds, seconds)
	return err
}
