package source

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// CallGrace limits how long a call of a ListerWatcher may continue after its context has ended.
const CallGrace = time.Second

// ErrNotReturned is returned when a call of a ListerWatcher continues after CallGrace.
var ErrNotReturned = errors.New("the ListerWatcher does not return")

// CallWithContext calls a ListerWatcher, which may ignore its context. If the call has not returned
// within CallGrace after the context has ended, CallWithContext returns an error that wraps
// ErrNotReturned and the context's cause. The call then continues on its goroutine; when it
// returns, late receives its value, and the goroutine ends. There is one such goroutine for each
// List or Watch that an informer abandons because it stops, or because the initial events of a
// watch exceed their deadline, and at most one for a request for the newest version; see Prober. If
// the call panics and utilruntime.ReallyCrash is false, the error is ErrPanicked.
func CallWithContext[T any](ctx context.Context, call func() (T, error), late func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		a := answer{err: ErrPanicked}
		func() {
			defer utilruntime.HandleCrashWithContext(ctx)
			a.value, a.err = call()
		}()
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
	timer := time.NewTimer(CallGrace)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		close(gone)
		err := fmt.Errorf("%w: %w", ErrNotReturned, context.Cause(ctx))
		klog.FromContext(ctx).Error(err, "An informer stopped, but its List or Watch has not returned")
		var none T
		return none, err
	}
}

// ProbePage is the number of objects that a probe requests from a List that seems to read page
// after page. client-go's pager uses the same limit.
const ProbePage = 500

// Prober implements Source.NewestVersion for a ListerWatcher. The zero value is ready to use. It is
// safe for concurrent use.
type Prober struct {
	asking atomic.Bool // a List for the newest version (a probe) is active
	// pagesItself is true if the last List for a probe seems to have read page after page, although
	// its limit was one object.
	pagesItself atomic.Bool
}

// NewestVersion lists one object and returns the list's resourceVersion. It returns an error if the
// List of an earlier call has not returned. Otherwise each call could leave one more goroutine that
// waits for a List. onePage, which may be nil, reports whether the List has sent a request that
// limits it to one page.
func (p *Prober) NewestVersion(ctx context.Context, o metav1.ListOptions, onePage func() bool, list func(context.Context, metav1.ListOptions) (runtime.Object, error)) (string, error) {
	if o.Limit = 1; p.pagesItself.Load() {
		o.Limit = ProbePage
	}
	if !p.asking.CompareAndSwap(false, true) {
		return "", fmt.Errorf("request for the newest version, some time ago: %w", ErrNotReturned)
	}
	object, err := CallWithContext(ctx, func() (runtime.Object, error) {
		defer p.asking.Store(false)
		return list(ctx, o)
	}, func(runtime.Object) {})
	limited := onePage != nil && onePage()
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !limited {
			p.pagesItself.Store(true) // the List may have read page after page until the timeout
		}
		return "", err
	}
	listMeta, err := ObjectListMeta(object)
	if err != nil {
		return "", err
	}
	switch n := int64(meta.LenList(object)); {
	case listMeta.Continue != "", n <= o.Limit && limited: // List read only one page
		p.pagesItself.Store(false)
	case n > o.Limit:
		p.pagesItself.Store(true)
	}
	return listMeta.ResourceVersion, nil
}
