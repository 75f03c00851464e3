package clientgo

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
)

// failures selects the errors of a reflector that a watch error handler receives. It selects the
// errors that a handler also receives with client-go: failed lists and refused watches. With
// client-go a handler receives neither the end of a watch nor the errors of watches while the
// server is unreachable.
type failures struct {
	last error // Err of the last status
	// outage is true after a watch failed because no server answered or the server sent 429. client-go
	// then repeats the watch without a list. The reflector sometimes lists instead; the handler must
	// not receive the failures of these lists.
	outage bool
	// stale is true after the server refused a list because the requested version is too old or is
	// newer than the server's state. client-go lists a second time before it reports this error.
	stale bool
}

// next records the Err of a new status, and reports whether the handler receives it.
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
	switch {
	case failed.Phase != reflector.Watching:
		return f.nextList(failed)
	case isRetried(failed):
		f.outage = true
		return false
	}
	return !endsEmpty(failed)
}

// nextList records the error of a LIST or of a probe, and reports whether the handler receives it.
// A probe is a LIST of one object that requests the newest resourceVersion.
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

// isRetried reports whether client-go repeats a WATCH after this error, without a LIST before it.
func isRetried(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)
}

// endsEmpty reports whether client-go's REST client returns an empty watch instead of the error.
func endsEmpty(err error) bool {
	if errors.Is(err, source.ErrStalled) {
		return true // client-go has no such limit: it would still wait, and report no error
	}
	broken, ok := errors.AsType[*brokenError](err)
	return ok && endsWatch(broken.err)
}
