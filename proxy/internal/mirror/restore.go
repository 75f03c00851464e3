package mirror

import (
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// RestoreTracker tracks whether the upstream went back in time, because it was restored from a
// backup. After that the upstream uses the same resourceVersions again with other content, and a
// client that was disconnected meanwhile cannot detect it. All resources share the tracker, because
// a resource may have no session when another one finds the restore. Some resources, often Events,
// may have a separate etcd with other resourceVersions. newestBefore is nevertheless the highest
// resourceVersion of all resources, so more clients than necessary may have to list again. The zero
// value represents an upstream that never went back. RestoreTracker is safe for concurrent use.
type RestoreTracker struct {
	mu     sync.Mutex
	newest uint64 // newest resourceVersion that a session had reached when it ended or was observed
	// newestBefore is the newest resourceVersion from before the upstream went back. 0: it never went
	// back.
	newestBefore uint64
	foundAt      time.Time // when the restore was last found
	// cached contains the resources that are cached now or were cached within the last rereadTime.
	// unread contains the resources that were in cached when the restore was found and have not been
	// read since.
	cached map[schema.GroupVersionResource]cachedResource
	unread map[schema.GroupVersionResource]struct{}
}

// cachedResource says until when a resource was cached, and up to which version.
type cachedResource struct {
	until  time.Time // zero: it is cached now
	newest uint64    // resourceVersion that its session had reached at that time
}

// rereadTime is the maximum time for which clients get an error because a resource has not been
// reread yet. The time starts at a restore of the upstream or a redefinition of the resource. After
// this time, the clients' requests are forwarded, because the upstream may answer them even if it
// never answers the proxy's list.
const rereadTime = 30 * time.Second

// Observe records that a session has reached a resourceVersion.
func (rt *RestoreTracker) Observe(resourceVersion uint64) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.newest = max(rt.newest, resourceVersion)
}

// revealsRestore reports whether a list of the resource at resourceVersion shows a restore that was
// not found before: the previous session had reached a later version.
func (rt *RestoreTracker) revealsRestore(gvr schema.GroupVersionResource, resourceVersion uint64) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	_, unread := rt.unread[gvr]
	return !unread && resourceVersion < rt.cached[gvr].newest
}

// SessionBegan records that the resource has been read and is cached from now on.
func (rt *RestoreTracker) SessionBegan(gvr schema.GroupVersionResource) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.cached == nil {
		rt.cached, rt.unread = map[schema.GroupVersionResource]cachedResource{}, map[schema.GroupVersionResource]struct{}{}
	}
	rt.cached[gvr] = cachedResource{}
	delete(rt.unread, gvr)
}

// SessionEnded records that a session that had reached resourceVersion has ended. wentBack says
// that it ended because the upstream went back. A session may end for this reason although it began
// to serve after the restore was found; the resource is then unread again.
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

// replaced records that another server serves the resource now. Its resourceVersions cannot be
// compared with the earlier ones.
func (rt *RestoreTracker) replaced(gvr schema.GroupVersionResource) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(rt.cached, gvr)
}

func (rt *RestoreTracker) forget() {
	maps.DeleteFunc(rt.cached, func(_ schema.GroupVersionResource, h cachedResource) bool {
		return !h.until.IsZero() && time.Since(h.until) > rereadTime
	})
}

// WentBack records that the upstream went back in time.
func (rt *RestoreTracker) WentBack() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.forget()
	rt.newestBefore, rt.foundAt, rt.unread = max(rt.newestBefore, rt.newest), time.Now(), map[schema.GroupVersionResource]struct{}{}
	for gvr := range rt.cached {
		rt.unread[gvr] = struct{}{}
	}
}

// before reports whether a state with this resourceVersion may be from before the upstream went
// back.
func (rt *RestoreTracker) before(resourceVersion uint64) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return resourceVersion > 0 && resourceVersion <= rt.newestBefore
}

// isUnread reports whether the upstream went back less than rereadTime ago, and the resource was
// cached before and has not been read since.
func (rt *RestoreTracker) isUnread(gvr schema.GroupVersionResource) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	_, unread := rt.unread[gvr]
	return unread && time.Since(rt.foundAt) < rereadTime
}

func wentBackSince(resourceVersion uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired("The server has gone back to an earlier state since resourceVersion " + resourceversion.Format(resourceVersion) + ".")
}

// LostFrom returns why a watch of a resource must not resume from a resourceVersion, or nil. It
// must not if the upstream went back after that version, less than rereadTime ago, and the resource
// has not been reread.
func (m *Mirror) LostFrom(gvr schema.GroupVersionResource, from uint64) error {
	if m.Restores.before(from) && m.Restores.isUnread(gvr) {
		return wentBackSince(from)
	}
	return nil
}
