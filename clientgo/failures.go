package clientgo

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
)

// failures chooses the errors of a reflector that a watch error handler gets. client-go passes to
// it what its ListAndWatch returns: lists that fail, and watches that are refused. A watch that
// ends, however it does, and a server that cannot be reached while it does not list, it handles
// without.
type failures struct {
	last error // of the status
	// outage says that no server answered a watch, or one asked to try later. client-go goes on
	// watching then. The reflector lists now and then.
	outage bool
	// stale says that a list was refused for how new it had to be. client-go lists once more before it
	// says so.
	stale bool
}

// next takes the error of a new status and reports whether the handler gets it.
func (f *failures) next(err error) bool {
	if err == nil {
		*f = failures{}
		return false
	}
	if err == f.last {
		return false
	}
	f.last = err
	failed, ok := errors.AsType[*reflector.Error](err)
	if !ok || !failed.Request {
		return false
	}
	if failed.Phase == reflector.Watching {
		return f.nextWatch(failed)
	}
	return f.nextList(failed)
}

// nextList takes the error of a LIST, or of the one of a single object that asks for the newest
// resourceVersion.
func (f *failures) nextList(err *reflector.Error) bool {
	stale := err.Sentinel == reflector.ErrExpired || err.Sentinel == reflector.ErrServerBehind
	switch {
	case stale && err.Phase == reflector.Asking:
		return false
	case stale:
		f.stale = !f.stale
		return !f.stale
	}
	f.stale = false
	return !f.outage || !isRetried(err)
}

func (f *failures) nextWatch(err *reflector.Error) bool {
	if isRetried(err) {
		f.outage = true
		return false
	}
	return !endsEmpty(err)
}

// isRetried reports whether client-go sends a WATCH with this error again before it does anything
// else.
func isRetried(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// endsEmpty reports whether client-go's REST client would have made an empty watch of the error.
func endsEmpty(err error) bool {
	if errors.Is(err, source.ErrStalled) {
		return true // there it would still wait
	}
	broken, ok := errors.AsType[*brokenError](err)
	return ok && endsWatch(broken.err)
}
