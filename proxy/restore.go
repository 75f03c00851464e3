package proxy

import (
	"context"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
)

// restoreTracker tracks whether the upstream went back in time: it was restored from a backup. Its
// resourceVersions come again then, with other content, and a client that was away meanwhile cannot
// tell. The resources share it, because one of them may have no session when another finds it out.
// Where some have an etcd of their own, as Events often do, newestBefore is the highest of all:
// more clients than need be are answered that they must list. The zero value is an upstream that
// never went back. It is safe for concurrent use.
type restoreTracker struct {
	mu     sync.Mutex
	newest uint64 // resourceVersion that a session which has ended had come to
	// newestBefore is the newest resourceVersion from before the upstream went back. 0: it never has.
	newestBefore uint64
	foundAt      time.Time // when that was found last
	// cached has the resources that are cached, and those that were within the last rereadTime. unread
	// has those that were cached at foundAt, or within rereadTime before it, and have not been read
	// since.
	cached map[schema.GroupVersionResource]cachedResource
	unread map[schema.GroupVersionResource]struct{}
}

// cachedResource is what is known of a resource that is or was cached.
type cachedResource struct {
	until  time.Time // zero: it is cached
	newest uint64    // resourceVersion that its session had come to then
}

// rereadTime is how long after a restore of the upstream, or a redefinition of a resource, clients
// get an error until the resource has been reread. Afterwards their requests are forwarded, since
// the upstream may never answer the proxy's list although it answers theirs.
const rereadTime = 30 * time.Second

// observe notes that a session has come to a resourceVersion.
func (rt *restoreTracker) observe(resourceVersion uint64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.newest = max(rt.newest, resourceVersion)
}

// revealsRestore reports whether a resource that has been read in the state of a resourceVersion
// shows that the upstream went back, which had not been found yet: the session before had come
// further.
func (rt *restoreTracker) revealsRestore(gvr schema.GroupVersionResource, resourceVersion uint64) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	_, unread := rt.unread[gvr]
	return !unread && resourceVersion < rt.cached[gvr].newest
}

// sessionBegan notes that a resource has been read, and is cached from now on.
func (rt *restoreTracker) sessionBegan(gvr schema.GroupVersionResource) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.cached == nil {
		rt.cached, rt.unread = map[schema.GroupVersionResource]cachedResource{}, map[schema.GroupVersionResource]struct{}{}
	}
	rt.cached[gvr] = cachedResource{}
	delete(rt.unread, gvr)
}

// sessionEnded notes that a session has ended, which had come to a resourceVersion. wentBack says
// that it ended because the upstream went back; it may have become ready after that was found.
func (rt *restoreTracker) sessionEnded(gvr schema.GroupVersionResource, resourceVersion uint64, wentBack bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.newest = max(rt.newest, resourceVersion)
	rt.forget()
	h, ok := rt.cached[gvr]
	if !ok {
		return
	}
	if h.until.IsZero() {
		rt.cached[gvr] = cachedResource{time.Now(), resourceVersion}
	}
	if wentBack {
		rt.unread[gvr] = struct{}{}
		rt.newestBefore = max(rt.newestBefore, rt.newest)
	}
}

// replaced notes that another server serves a resource. Its resourceVersions are others.
func (rt *restoreTracker) replaced(gvr schema.GroupVersionResource) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.cached, gvr)
}

// forget forgets what was cached too long ago. The caller holds the lock.
func (rt *restoreTracker) forget() {
	maps.DeleteFunc(rt.cached, func(_ schema.GroupVersionResource, h cachedResource) bool {
		return !h.until.IsZero() && time.Since(h.until) > rereadTime
	})
}

// wentBack notes that the upstream went back in time.
func (rt *restoreTracker) wentBack() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.forget()
	rt.newestBefore, rt.foundAt, rt.unread = max(rt.newestBefore, rt.newest), time.Now(), map[schema.GroupVersionResource]struct{}{}
	for gvr := range rt.cached {
		rt.unread[gvr] = struct{}{}
	}
}

// before reports whether a state may be one from before the upstream went back.
func (rt *restoreTracker) before(resourceVersion uint64) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return resourceVersion > 0 && resourceVersion <= rt.newestBefore
}

// isUnread reports whether the upstream went back a short while ago, and a resource that was cached
// before has not been read since.
func (rt *restoreTracker) isUnread(gvr schema.GroupVersionResource) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	_, unread := rt.unread[gvr]
	return unread && time.Since(rt.foundAt) < rereadTime
}

// errReread is returned for a read while a resource has no session. It is a 429, not a 503, since
// neither the proxy nor the upstream is shutting down.
var errReread = apierrors.NewTooManyRequests("The resource is being reloaded, please try again later.", retryAfterSeconds)

// rereads reports whether the upstream went back, or has redefined the resource, and the resource
// is being read for the first time since. Lists of a small one that was redefined need not wait for
// that: they cost the upstream little. After a restore they do wait, since no watch may follow a
// list that was forwarded before the resource has been read.
func (res *resource) rereads() bool {
	return res.ready.Load() == nil && resourceState(res.notReady.Load()) == stateLoading &&
		(res.resources.restoreTracker.isUnread(res.gvr) || res.wasRedefined() && res.objects.Load() >= minProofObjects)
}

// wasRedefined reports whether the upstream has redefined the resource a short while ago, and it
// has not been read since.
func (res *resource) wasRedefined() bool {
	at := res.redefined.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < rereadTime
}

// lost returns why a read can be neither served nor forwarded after the upstream went back, or nil.
//
// A read that resumes from before the restore gets 410, unless the session, which may be nil, can
// resume from there. If it were forwarded, the client would permanently miss the changes between
// that state and a later one with the same resourceVersion, since it cannot distinguish the two. It
// gets the error immediately: by the time the resource is cached again, the upstream may have
// reached that resourceVersion.
//
// A read of the current state gets 429 while the resource is reread, so that not all clients list
// the upstream at the same time. That also applies to a resource that the upstream has redefined,
// as all are after an upgrade.
func (res *resource) lost(sess *session, rq *request.Request) error {
	from := rq.ExactVersion()
	switch {
	case res.resources.lost(res.gvr, from), res.hasFutureVersion(sess, rq),
		sess != nil && res.resources.restoreTracker.before(from) && !sess.Cache().CanResumeFrom(rq.ResourceVersion):
		return wentBackSince(from)
	case sess == nil && sendsState(rq) && res.rereads():
		return errReread
	}
	return nil
}

// hasFutureVersion reports whether a read resumes from a state that may be from before the upstream
// went back, and that the session has not come to since. The upstream may have come to it: its own
// lists name its newest resourceVersion, and the session of a resource that does not change learns
// of it late.
func (res *resource) hasFutureVersion(sess *session, rq *request.Request) bool {
	from := rq.ExactVersion()
	return sess != nil && res.resources.restoreTracker.before(from) && from > sess.Version()
}

func wentBackSince(resourceVersion uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired("The server has gone back to an earlier state since resourceVersion " + resourceversion.Format(resourceVersion) + ".")
}

// lost reports whether a watch of a resource must not resume from a resourceVersion: the upstream
// has since gone back, within rereadTime, and the resource has not been reread.
func (rs *resources) lost(gvr schema.GroupVersionResource, from uint64) bool {
	return rs.restoreTracker.before(from) && rs.restoreTracker.isUnread(gvr)
}

// checkFutureVersion decides about a read that hasFutureVersion. It asks the upstream for its
// newest resourceVersion, in one request for all who wait.
func (s *session) checkFutureVersion(ctx context.Context, from uint64) error {
	switch newest, err := s.NewestVersion(ctx); {
	case err != nil:
		return apierrors.NewTooManyRequests("The server has gone back to an earlier state, and has not said how far it is.", retryAfterSeconds)
	case newest < from:
		return wentBackSince(from)
	}
	return nil // nothing has changed up to there, or the client has listed it
}
