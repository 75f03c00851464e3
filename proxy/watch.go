package proxy

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// lastWriteTimeout bounds the write in progress when a watch is revoked.
const lastWriteTimeout = time.Second

// beginWatch begins to serve a WATCH. It leaves in a.rest what goes on until the WATCH ends or its
// caller loses the permission.
func (s *Server) beginWatch(a *responseWriter, w http.ResponseWriter, r *http.Request, rq *servedRead) {
	a.onEnd(rq.Watch())
	a.onEnd(s.servedWatches.add(r, rq.Request, rq.who).leave)
	ctx, cancel := context.WithCancel(r.Context())
	a.onEnd(cancel)
	by, part := s.permissionOf(rq.who, rq.Request)
	check := s.rechecker.watch(s.authn.credentialOf(r), rq.who, by, part, rq.decision == decisionAllow, func() {
		s.revoked.Add(1)
		cancel()
		// The client may be one that reads nothing.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWriteTimeout))
	})
	a.onEnd(check.leave)
	release, ok := s.acquireStart(ctx, rq)
	if !ok {
		watchcache.WriteError(w, r, seats.ErrTooManyStarts)
		a.countRejected()
		return
	}
	defer release()
	a.rest = rq.session.Cache().Begin(w, r.WithContext(ctx), rq.Request)
}

// wholePermissionAge is how recent the permission to read everything must be for a watch with
// selectors to be rechecked by it.
const wholePermissionAge = time.Minute

// permissionOf returns the action that allows a read. If that is the read without its selectors,
// part is the read itself.
func (s *Server) permissionOf(who user.Info, q *request.Request) (by, part *request.Request) {
	if hasSelectors(q) {
		if whole := withoutSelectors(q); s.authz.allowedWithin(digestOf(whole, who), wholePermissionAge) {
			return whole, q
		}
	}
	return q, nil
}

// recheckCaller has the upstream review the caller of watches.
func (s *Server) recheckCaller(ctx context.Context, q *recheckedReview, who user.Info) (user.Info, decision) {
	opts := reviewOptions{grace: s.opts.OutageGrace, uncached: true}
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
