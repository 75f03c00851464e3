package proxy

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// lastWriteTimeout is what a write that is under way gets when its watch ends.
const lastWriteTimeout = time.Second

// serveWatch answers a WATCH, and ends it when its caller may no longer have it. v is what the
// permission to begin it is by.
func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, res *resource, on *session, rd *readRequest, who user.Info, d decision) {
	res.watchers.Add(1)
	defer res.watchers.Add(-1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	by, part := s.permissionOf(who, rd.review)
	check := s.rechecker.watch(credentialOf(r), who, by, part, d == decisionAllow, func() {
		s.revoked.Add(1)
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWriteTimeout)) // a client that reads nothing
	})
	defer check.leave()
	on.serve(w, r.WithContext(ctx), rd)
}

// wholePermissionAge is how long ago a permission for everything may have been found, for a watch
// of a part to be by that.
const wholePermissionAge = time.Minute

// permissionOf returns by what a caller has a read: by the permission for everything, if they have
// that, and then part is what the read needs of it.
func (s *Server) permissionOf(who user.Info, q *action) (by, part *action) {
	if q.hasSelectors() {
		if whole := q.withoutSelectors(); s.authz.allowedWithin(whole.digest(who), wholePermissionAge) {
			return whole, q
		}
	}
	return q, nil
}

// credentialOf returns what a request shows of its caller, and nothing else of it: its body and its
// context are of the connection.
func credentialOf(r *http.Request) credential {
	b := credential{id: tokenID(r), r: &http.Request{
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

// recheckCaller asks the upstream a question about the caller of watches.
func (s *Server) recheckCaller(ctx context.Context, q *recheckQuestion, who user.Info) (user.Info, decision) {
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
