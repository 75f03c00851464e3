package clientgo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// lateBy is how long a ListerWatcher is waited for when its context has ended.
const lateBy = time.Second

var errNotReturned = errors.New("the ListerWatcher does not return")

// await calls a ListerWatcher, which may know nothing of contexts. When the context has ended and the call does not come to its end,
// the error is errNotReturned and the context's; what the call brings later is given to late. The goroutine ends with the call.
func await[T any](ctx context.Context, call func() (T, error), late func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		var a answer
		a.value, a.err = call()
		select {
		case answers <- a:
		case <-gone:
			late(a.value)
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(lateBy)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		close(gone)
		err := fmt.Errorf("%w: %w", errNotReturned, context.Cause(ctx))
		klog.FromContext(ctx).Error(err, "An informer stops and leaves its List or Watch behind")
		var none T
		return none, err
	}
}
