package mirror

import (
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// RestoreTracker tracks whether the upstream went back in time: it was restored from a backup. Its
// resourceVersions come again then, with other content, and a client that was away meanwhile cannot
// tell. The resources share it, because one of them may have no session when another finds it out.
// Where some have an etcd of their own, as Events often do, newestBefore is the highest of all:
// more clients than need be are answered that they must list. The zero value is an upstream that
// never went back. It is safe for concurrent use.
type RestoreTracker struct {
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

// Observe notes that a session has come to a resourceVersion.
func (rt *RestoreTracker) Observe(resourceVersion uint64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.newest = max(rt.newest, resourceVersion)
}

// revealsRestore reports whether a resource that has been read in the state of a resourceVersion
// shows that the upstream went back, which had not been found yet: the session before had come
// further.
func (rt *RestoreTracker) revealsRestore(gvr schema.GroupVersionResource, resourceVersion uint64) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	_, unread := rt.unread[gvr]
	return !unread && resourceVersion < rt.cached[gvr].newest
}

// SessionBegan notes that a resource has been read, and is cached from now on.
func (rt *RestoreTracker) SessionBegan(gvr schema.GroupVersionResource) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.cached == nil {
		rt.cached, rt.unread = map[schema.GroupVersionResource]cachedResource{}, map[schema.GroupVersionResource]struct{}{}
	}
	rt.cached[gvr] = cachedResource{}
	delete(rt.unread, gvr)
}

// SessionEnded notes that a session has ended, which had come to a resourceVersion. WentBack says
// that it ended because the upstream went back; it may have become ready after that was found.
func (rt *RestoreTracker) SessionEnded(gvr schema.GroupVersionResource, resourceVersion uint64, wentBack bool) {
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
func (rt *RestoreTracker) replaced(gvr schema.GroupVersionResource) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.cached, gvr)
}

// forget forgets what was cached too long ago. The caller holds the lock.
func (rt *RestoreTracker) forget() {
	maps.DeleteFunc(rt.cached, func(_ schema.GroupVersionResource, h cachedResource) bool {
		return !h.until.IsZero() && time.Since(h.until) > rereadTime
	})
}

// WentBack notes that the upstream went back in time.
func (rt *RestoreTracker) WentBack() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.forget()
	rt.newestBefore, rt.foundAt, rt.unread = max(rt.newestBefore, rt.newest), time.Now(), map[schema.GroupVersionResource]struct{}{}
	for gvr := range rt.cached {
		rt.unread[gvr] = struct{}{}
	}
}

// before reports whether a state may be one from before the upstream went back.
func (rt *RestoreTracker) before(resourceVersion uint64) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return resourceVersion > 0 && resourceVersion <= rt.newestBefore
}

// isUnread reports whether the upstream went back a short while ago, and a resource that was cached
// before has not been read since.
func (rt *RestoreTracker) isUnread(gvr schema.GroupVersionResource) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	_, unread := rt.unread[gvr]
	return unread && time.Since(rt.foundAt) < rereadTime
}

func wentBackSince(resourceVersion uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired("The server has gone back to an earlier state since resourceVersion " + resourceversion.Format(resourceVersion) + ".")
}

// LostFrom returns why a watch of a resource must not resume from a resourceVersion, or nil.
func (m *Mirror) LostFrom(gvr schema.GroupVersionResource, from uint64) error {
	if m.lost(gvr, from) {
		return wentBackSince(from)
	}
	return nil
}

// lost reports whether a watch of a resource must not resume from a resourceVersion: the upstream
// has since gone back, within rereadTime, and the resource has not been reread.
func (m *Mirror) lost(gvr schema.GroupVersionResource, from uint64) bool {
	return m.Restores.before(from) && m.Restores.isUnread(gvr)
}
