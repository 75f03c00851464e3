package proxy

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// lastWrite is what a write that is under way gets when its watch ends.
const lastWrite = time.Second

// serveWatch answers a WATCH, and ends it when its caller may no longer have it. v is what the permission to begin it is by.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, h *held, on *session, rd *read, who user.Info, v verdict) {
	h.watchers.Add(1)
	defer h.watchers.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	by, part := s.permission(who, rd.review)
	check := s.rechecks.watch(bearerOf(r), who, by, part, v == yes, func() {
		s.revoked.Add(1)
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWrite)) // a client that reads nothing
	})
	defer check.leave()
	on.serve(w, r.WithContext(ctx), rd)
}

// heldFor is how long ago a permission for everything may have been found, for a watch of a part to be by that.
const heldFor = time.Minute

// permission returns by what a caller has a read: by the permission for everything, if they have that, and then part is what the read needs of it.
func (s *Server) permission(who user.Info, q *action) (by, part *action) {
	if q.selects() {
		if whole := q.whole(); s.authz.knew(whole.digest(who), heldFor) {
			return whole, q
		}
	}
	return q, nil
}

// bearerOf returns what a request shows of its caller, and nothing else of it: its body and its context are of the connection.
func bearerOf(r *http.Request) bearer {
	b := bearer{id: tokenID(r), r: &http.Request{
		Method: r.Method, URL: r.URL, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: r.Header, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS,
	}}
	if known, ok := r.Context().Value(identityKey{}).(*identity); ok && known.caller != nil {
		b.id = sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
		return b
	}
	b.token = true
	return b
}

// askAgain asks the upstream a question about the caller of watches.
func (s *Server) askAgain(ctx context.Context, q *recheck, who user.Info) (user.Info, verdict) {
	t := terms{grace: s.opts.Grace, anew: true}
	r := q.bearer.r.WithContext(ctx)
	if q.action == nil {
		c, v := s.authn.caller(r, t)
		if c == nil {
			return nil, v
		}
		return c.user, v
	}
	if !q.bearer.token {
		c, _ := s.authn.certified(r)
		if c == nil {
			return nil, no
		}
		who = c.user
	}
	return who, s.authz.allowsThis(ctx, who, q.action, t)
}
