package proxy

import (
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/resourceversion"
)

// rewind is what is known of an upstream that went back in time: it was restored from a backup. Its
// resourceVersions come again then, with other content, and a client that was away meanwhile cannot
// tell. The resources share it, because one of them may have no session when another finds it out.
// Where some have an etcd of their own, as Events often do, past is the highest of all: more clients
// than need be are told to list. The zero value is an upstream that never went back. It is safe for
// concurrent use.
type rewind struct {
	newest atomic.Uint64 // resourceVersion that a session which has ended had come to
	past   atomic.Uint64 // newest resourceVersion from before the upstream went back; 0: it never has
}

// saw notes that a session has come to a resourceVersion.
func (rw *rewind) saw(resourceVersion uint64) { raise(&rw.newest, resourceVersion) }

// wentBack notes that the upstream went back in time.
func (rw *rewind) wentBack() { raise(&rw.past, rw.newest.Load()) }

// raise makes v at least n.
func raise(v *atomic.Uint64, n uint64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// lost returns why a read cannot resume from the state that it names, or nil. It may be one from
// before the upstream went back: no newer than that, and the session, nil if there is none, cannot
// resume from it. Nobody can tell such a state from one that the upstream came to since, so it is
// not forwarded either: the client would miss what lies between, for good.
func (res *resource) lost(sess *session, rd *readRequest) error {
	from := resourceversion.Number(rd.exactVersion)
	switch {
	case from == 0 || from > res.resources.rewind.past.Load():
		return nil
	case sess == nil && res.rewinding.Load() && resourceState(res.notReady.Load()) == stateLoading:
		return apierrors.NewTooManyRequests("The server has gone back to an earlier state, and the resource is being read.", retryAfterSeconds)
	case sess != nil && (from > sess.sink.version() || !sess.cache.CanResumeFrom(rd.exactVersion)):
		return apierrors.NewResourceExpired("The server has gone back to an earlier state since resourceVersion " + rd.exactVersion + ".")
	}
	return nil
}
