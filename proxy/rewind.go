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

// rereads reports whether the upstream went back, and the resource is being read for the first time
// since.
func (res *resource) rereads() bool {
	return res.rewinding.Load() && res.ready.Load() == nil && resourceState(res.notReady.Load()) == stateLoading
}

// lost returns why a read can be neither served nor forwarded after the upstream went back, or nil.
//
// It may resume from a state from before that: no newer, and the session, nil if there is none,
// cannot resume from it. Nobody can tell such a state from one that the upstream comes to later, so
// the client would miss what lies between, for good, if it were forwarded. It is told at once: by
// the time that the resource is held again, the upstream may have come to that resourceVersion.
//
// All who are told so list. These lists, which are what a session answers otherwise, wait for the
// session, since the upstream would have to answer all of them at one time.
func (res *resource) lost(sess *session, rd *readRequest) error {
	from := resourceversion.Number(rd.exactVersion)
	before := from > 0 && from <= res.resources.rewind.past.Load()
	switch {
	case before && sess == nil && res.rewinding.Load() && res.mayComeBack(),
		before && sess != nil && (from > sess.sink.version() || !sess.cache.CanResumeFrom(rd.exactVersion)):
		return apierrors.NewResourceExpired("The server has gone back to an earlier state since resourceVersion " + rd.exactVersion + ".")
	case sess == nil && rd.sendsState() && res.rereads():
		return apierrors.NewTooManyRequests("The server has gone back to an earlier state, and the resource is being read.", retryAfterSeconds)
	}
	return nil
}

// mayComeBack reports whether a session may still become ready. Otherwise clients whose lists are
// forwarded could never resume from them, as long as the upstream has not come to its past.
func (res *resource) mayComeBack() bool {
	state := resourceState(res.notReady.Load())
	return state == stateLoading || state == stateMissing
}
