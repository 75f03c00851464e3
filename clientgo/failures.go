package clientgo

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
)

// failures selects the errors of a reflector that a watch error handler receives. client-go passes
// to it the errors that ListAndWatch returns: failed lists and refused watches. It handles the end
// of a watch, and an unreachable server while it does not list, without it.
type failures struct {
	last error // of the status
	// outage is set if no server answered a watch, or a server asked to retry later. client-go then
	// continues to watch. The reflector lists now and then.
	outage bool
	// stale is set if a list was refused because the server had not reached its version. client-go
	// lists again before it reports that.
	stale bool
}

// next records the error of a new status and reports whether the handler receives it.
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

// nextList records the error of a LIST, or of a LIST of a single object for the newest
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

// isRetried reports whether client-go immediately sends a WATCH with this error again.
func isRetried(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// endsEmpty reports whether client-go's REST client would turn the error into an empty watch.
func endsEmpty(err error) bool {
	if errors.Is(err, source.ErrStalled) {
		return true // client-go would still wait
	}
	broken, ok := errors.AsType[*brokenError](err)
	return ok && endsWatch(broken.err)
}
