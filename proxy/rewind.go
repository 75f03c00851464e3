package proxy

import (
	"context"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/resourceversion"
)

// rewind is what is known of an upstream that went back in time: it was restored from a backup. Its
// resourceVersions come again then, with other content, and a client that was away meanwhile cannot
// tell. The resources share it, because one of them may have no session when another finds it out.
// Where some have an etcd of their own, as Events often do, past is the highest of all: more
// clients than need be are told to list. The zero value is an upstream that never went back. It is
// safe for concurrent use.
type rewind struct {
	mu     sync.Mutex
	newest uint64    // resourceVersion that a session which has ended had come to
	past   uint64    // newest resourceVersion from before the upstream went back; 0: it never has
	at     time.Time // when that was found last
	// held has the resources that are held, and those that were within rereadTime before at, or
	// before now. unread has those of them that were not read since at.
	held   map[schema.GroupVersionResource]heldResource
	unread map[schema.GroupVersionResource]struct{}
}

// heldResource is what is known of a resource that was held.
type heldResource struct {
	until  time.Time // zero: it is held
	newest uint64    // resourceVersion that its session had come to then
}

// rereadTime is how long after the upstream went back, or has redefined a resource, clients are
// told so where their resource has not been read anew. Afterwards their requests are forwarded: a
// list of the proxy's may never be answered where theirs are.
const rereadTime = 30 * time.Second

// saw notes that a session has come to a resourceVersion.
func (rw *rewind) saw(resourceVersion uint64) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.newest = max(rw.newest, resourceVersion)
}

// shows reports whether a resource that has been read in the state of a resourceVersion shows that
// the upstream went back, which was not known: the session before had come further.
func (rw *rewind) shows(gvr schema.GroupVersionResource, resourceVersion uint64) bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	_, unread := rw.unread[gvr]
	return !unread && resourceVersion < rw.held[gvr].newest
}

// holds notes that a resource has been read, and is held from now on.
func (rw *rewind) holds(gvr schema.GroupVersionResource) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if rw.held == nil {
		rw.held, rw.unread = map[schema.GroupVersionResource]heldResource{}, map[schema.GroupVersionResource]struct{}{}
	}
	rw.held[gvr] = heldResource{}
	delete(rw.unread, gvr)
}

// ended notes that a session has ended, which had come to a resourceVersion. wentBack says that it
// ended because the upstream went back; it may have become ready after that was found.
func (rw *rewind) ended(gvr schema.GroupVersionResource, resourceVersion uint64, wentBack bool) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.newest = max(rw.newest, resourceVersion)
	rw.forget()
	h, ok := rw.held[gvr]
	if !ok {
		return
	}
	if h.until.IsZero() {
		rw.held[gvr] = heldResource{time.Now(), resourceVersion}
	}
	if wentBack {
		rw.unread[gvr] = struct{}{}
		rw.past = max(rw.past, rw.newest)
	}
}

// replaced notes that another server serves a resource. Its resourceVersions are others.
func (rw *rewind) replaced(gvr schema.GroupVersionResource) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	delete(rw.held, gvr)
}

// forget forgets what was held too long ago. The lock is held.
func (rw *rewind) forget() {
	maps.DeleteFunc(rw.held, func(_ schema.GroupVersionResource, h heldResource) bool {
		return !h.until.IsZero() && time.Since(h.until) > rereadTime
	})
}

// wentBack notes that the upstream went back in time.
func (rw *rewind) wentBack() {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	rw.forget()
	rw.past, rw.at, rw.unread = max(rw.past, rw.newest), time.Now(), map[schema.GroupVersionResource]struct{}{}
	for gvr := range rw.held {
		rw.unread[gvr] = struct{}{}
	}
}

// before reports whether a state may be one from before the upstream went back.
func (rw *rewind) before(resourceVersion uint64) bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return resourceVersion > 0 && resourceVersion <= rw.past
}

// isUnread reports whether the upstream went back a short while ago, and a resource that was held
// before has not been read since.
func (rw *rewind) isUnread(gvr schema.GroupVersionResource) bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	_, unread := rw.unread[gvr]
	return unread && time.Since(rw.at) < rereadTime
}

// errReadAnew is the 429 of a read that comes while a resource has no session: neither the proxy nor
// the upstream is about to end.
var errReadAnew = apierrors.NewTooManyRequests("The resource is being read anew, please try again later.", retryAfterSeconds)

// rereads reports whether the upstream went back, or has redefined the resource, and the resource
// is being read for the first time since.
func (res *resource) rereads() bool {
	return res.ready.Load() == nil && resourceState(res.notReady.Load()) == stateLoading &&
		(res.resources.rewind.isUnread(res.gvr) || res.wasRedefined())
}

// wasRedefined reports whether the upstream has redefined the resource a short while ago, and it
// has not been read since.
func (res *resource) wasRedefined() bool {
	at := res.redefined.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < rereadTime
}

// lost returns why a read can be neither served nor forwarded after the upstream went back, or nil.
//
// It may resume from a state from before that: no newer, and the session, nil if there is none,
// cannot resume from it. Nobody can tell such a state from one that the upstream comes to later, so
// the client would miss what lies between, for good, if it were forwarded. It is told at once: by
// the time that the resource is held again, the upstream may have come to that resourceVersion.
//
// All who are told so list. These lists, which are what a session answers otherwise, wait for the
// session, since the upstream would have to answer all of them at one time. That also goes for a
// resource that the upstream has redefined, as all are after an upgrade.
func (res *resource) lost(sess *session, rd *readRequest) error {
	from := resourceversion.Number(rd.exactVersion)
	switch {
	case res.resources.lost(res.gvr, from), res.hasFutureVersion(sess, rd),
		sess != nil && res.resources.rewind.before(from) && !sess.cache.CanResumeFrom(rd.exactVersion):
		return wentBackSince(from)
	case sess == nil && rd.sendsState() && res.rereads():
		return errReadAnew
	}
	return nil
}

// hasFutureVersion reports whether a read resumes from a state that may be from before the upstream went
// back, and that the session has not come to since. The upstream may have come to it: its own lists
// name its newest resourceVersion, and the session of a resource that does not change is told of it
// late.
func (res *resource) hasFutureVersion(sess *session, rd *readRequest) bool {
	from := resourceversion.Number(rd.exactVersion)
	return sess != nil && res.resources.rewind.before(from) && from > sess.sink.version()
}

func wentBackSince(resourceVersion uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired("The server has gone back to an earlier state since resourceVersion " + resourceversion.Format(resourceVersion) + ".")
}

// lost reports whether a watch of a resource must not resume from a resourceVersion: the upstream
// went back since, a short while ago, and the resource has not been read anew.
func (rs *resources) lost(gvr schema.GroupVersionResource, from uint64) bool {
	return rs.rewind.before(from) && rs.rewind.isUnread(gvr)
}

// checkFutureVersion decides about a read that hasFutureVersion. It asks the upstream for its newest
// resourceVersion, in one request for all who wait.
func (s *session) checkFutureVersion(ctx context.Context, from uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.freshness.timeout)
	defer cancel()
	switch q := s.freshness.newestVersion(ctx); {
	case q == nil || q.err != nil:
		return apierrors.NewTooManyRequests("The server has gone back to an earlier state, and has not said how far it is.", retryAfterSeconds)
	case q.rv < from:
		return wentBackSince(from)
	}
	return nil // nothing has changed up to there, or the client has listed it
}
