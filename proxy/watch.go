package proxy

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/watchcache"
)

// lastWriteTimeout bounds the write in progress when a watch is revoked.
const lastWriteTimeout = time.Second

// beginWatch begins to serve a WATCH. It leaves in a.rest what goes on until the WATCH ends or its
// caller loses the permission.
func (s *Server) beginWatch(a *responseWriter, w http.ResponseWriter, r *http.Request, rd *servedRead) {
	rd.resource.watchers.Add(1)
	a.onEnd(func() { rd.resource.watchers.Add(-1) })
	a.onEnd(s.servedWatches.add(r, rd.readRequest, rd.who).leave)
	ctx, cancel := context.WithCancel(r.Context())
	a.onEnd(cancel)
	by, part := s.permissionOf(rd.who, rd.review)
	check := s.rechecker.watch(s.authn.credentialOf(r), rd.who, by, part, rd.decision == decisionAllow, func() {
		s.revoked.Add(1)
		cancel()
		// The client may be one that reads nothing.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWriteTimeout))
	})
	a.onEnd(check.leave)
	release, ok := s.acquireStart(ctx, rd)
	if !ok {
		watchcache.WriteError(w, r, errTooManyStarts)
		a.countRejected()
		return
	}
	defer release()
	a.rest = rd.session.Cache().Begin(w, r.WithContext(ctx), rd.query, rd.namespace, rd.review.name)
}

// wholePermissionAge is how recent the permission to read everything must be for a watch with
// selectors to be rechecked by it.
const wholePermissionAge = time.Minute

// permissionOf returns the action that allows a read. If that is the read without its selectors,
// part is the read itself.
func (s *Server) permissionOf(who user.Info, q *action) (by, part *action) {
	if q.hasSelectors() {
		if whole := q.withoutSelectors(); s.authz.allowedWithin(whole.digest(who), wholePermissionAge) {
			return whole, q
		}
	}
	return q, nil
}

// recheckCaller has the upstream review the caller of watches.
func (s *Server) recheckCaller(ctx context.Context, q *recheckedReview, who user.Info) (user.Info, decision) {
	opts := reviewOptions{grace: s.opts.Grace, uncached: true}
	r := q.credential.r.WithContext(ctx)
	if q.action == nil {
		c, d := s.authn.authenticate(r, opts)
		if c == nil {
			return nil, d
		}
		return c.user, d
	}
	if !q.credential.token {
		c, _ := s.authn.byCertificate(r)
		if c == nil {
			return nil, decisionDeny
		}
		who = c.user
	}
	return who, s.authz.allowsExactly(ctx, who, q.action, opts)
}
