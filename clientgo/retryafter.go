package clientgo

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryAfter takes Retry-After out of the refusals of an informer's requests. client-go's REST client makes a request that is refused with
// it again by itself, ten times, and shows the refusal only then: a server that says it has not reached a resourceVersion was not heard
// before the question had timed out. When to ask again is the reflector's to decide.
type retryAfter struct{ seconds atomic.Int32 }

type retryAfterKey struct{}

func (r *retryAfter) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, retryAfterKey{}, r)
}

// strip takes the header from the answer to a request of an informer's.
func stripRetryAfter(req *http.Request, resp *http.Response) {
	r, ok := req.Context().Value(retryAfterKey{}).(*retryAfter)
	if !ok || resp == nil || resp.StatusCode < http.StatusBadRequest {
		return
	}
	if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		r.seconds.Store(int32(seconds))
	}
	resp.Header.Del("Retry-After")
}

// restore puts what the header said into the error that the client has made of the answer, where its body did not say it.
func (r *retryAfter) restore(err error) error {
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
