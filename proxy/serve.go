package proxy

import (
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/watchcache"
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		watchcache.WriteError(w, r, apierrors.NewServiceUnavailable("the proxy is shutting down"))
		return
	}
	defer s.end()
	if s.sendsGoaway(r) {
		w.Header().Set("Connection", "close")
	}
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the one that the connection's last request has left
	}
	a := &responseWriter{ResponseWriter: w}
	defer a.limitFinalWrite(r)
	w = a
	switch r.URL.Path {
	case "/livez", "/healthz", "/readyz":
		if s.discardBody(w, r) {
			s.serveHealth(w, r)
		}
	case "/metrics":
		if s.discardBody(w, r) {
			s.serveMetrics(w, r)
		}
	default:
		s.admit(a, r)
	}
}

// serve answers a request, from here if it is a read that may be, or from upstream.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rd *readRequest) {
	switch {
	case rd != nil && s.serveRead(w, r, rd):
	case rd != nil && rd.ownToken && s.expired(w, r, rd):
	default:
		s.forward(w, r)
	}
}

// expired answers a read that goes on with a page of ours which cannot be given any more. It
// returns false for somebody who may not have it anyway: the upstream says so.
func (s *Server) expired(w http.ResponseWriter, r *http.Request, rd *readRequest) bool {
	_, d := s.authorize(r, rd)
	if d == decisionDeny {
		return false
	}
	err := d.err()
	if err == nil {
		err = apierrors.NewResourceExpired("The provided continue parameter is too old. Start a new list without it.")
	}
	if s.discardBody(w, r) {
		watchcache.WriteError(w, r, err)
	}
	return true
}

// serveRead answers a read from what is held. It returns false if that cannot be, and nothing was
// answered.
func (s *Server) serveRead(w http.ResponseWriter, r *http.Request, rd *readRequest) bool {
	begun := time.Now()
	res := s.resources.find(rd.gvr)
	if res == nil && !s.resources.canAdd(rd.gvr) {
		return false
	}
	prove := rd.consistent && (rd.name != "" || !s.resources.alwaysCached[rd.gvr.GroupResource()]) || s.tooStale(res, rd)
	if prove && !s.wantsProof(res, rd) {
		return false
	}
	if res != nil {
		if on := res.readSession(); on == nil || !on.canServe(r, rd) {
			return false
		}
	}
	who, d := s.authorize(r, rd)
	switch {
	case res != nil && (d == decisionUnanswered || d == decisionOverloaded):
		if s.discardBody(w, r) {
			watchcache.WriteError(w, r, d.err())
		}
		return true
	case d != decisionAllow && d != decisionGrace: // the upstream says it in its own words, or is not there to say anything
		return false
	case res == nil: // for those who come later
		s.resources.add(rd.gvr)
		return false
	}
	on := res.ready.Load()
	if on == nil {
		return false
	}
	if prove && !on.freshness.proveCurrent(r.Context()) {
		return false
	}
	gone := on.rewound(rd, res.rewoundFrom.Load())
	switch {
	case gone:
	case !on.waitForVersion(r.Context(), rd):
		s.forwardWithTimeout(w, r, watchcache.TooLargeError(rd.minVersion, on.sink.version()))
		return true
	case !on.canServe(r, rd): // the log goes on while somebody is waited for
		return false
	}
	if p := slotOf(r); p != nil {
		if err := p.setUser(who); err != nil {
			s.reject(w, r, err)
			return true
		}
	}
	record, err := s.auditor.begin(r, rd, who, begun)
	if err != nil {
		return false
	}
	if record != nil {
		noted := record.writer(w, rd.review.verb == "watch")
		defer noted.end()
		w = noted
	}
	switch {
	case !s.discardBody(w, r):
	case gone:
		watchcache.WriteError(w, r, apierrors.NewResourceExpired("The server has gone back to an earlier state than resourceVersion "+rd.exactVersion+"."))
	default:
		s.serveFrom(w, r, res, on, rd, who, d)
	}
	return true
}

// wantsProof reports whether a read that must be current is to wait for a proof that what is held
// is: one that costs the upstream no more than that goes there. It is taken in first where it is
// not held.
func (s *Server) wantsProof(res *resource, rd *readRequest) bool {
	if rd.consistent && (s.opts.PassConsistent || rd.name != "" || rd.limit > 0 && rd.limit < minProofObjects) {
		return false
	}
	if res == nil {
		return true
	}
	on := res.readSession()
	return on != nil && on.store.Len() >= minProofObjects
}

// tooStale reports whether what is held is older than a read may be answered with, though it need
// not be current.
func (s *Server) tooStale(res *resource, rd *readRequest) bool {
	if s.opts.MaxStaleness <= 0 || res == nil || rd.exactVersion != "" || rd.ownToken {
		return false
	}
	on := res.ready.Load()
	return on != nil && time.Since(on.lastHeard()) > s.opts.MaxStaleness
}

// serveFrom answers a read from a session. v is what the caller's permission is by.
func (s *Server) serveFrom(w http.ResponseWriter, r *http.Request, res *resource, on *session, rd *readRequest, who user.Info, d decision) {
	s.served.WithLabelValues(rd.gvr.Group, rd.gvr.Resource, rd.review.verb).Inc()
	on.warnings.add(w.Header())
	w.Header().Set("Age", strconv.FormatInt(int64(max(time.Since(on.lastHeard()), 0)/time.Second), 10))
	if rd.review.verb == "watch" {
		s.serveWatch(w, r, res, on, rd, who, d)
		return
	}
	defer bufferWrites(r)()
	on.serve(w, r, rd)
}

// authorize returns who the caller is, and whether they may have the read.
func (s *Server) authorize(r *http.Request, rd *readRequest) (user.Info, decision) {
	opts := reviewOptions{grace: s.opts.Grace}
	who, known := s.authn.authenticate(r, opts)
	if who == nil {
		return nil, known
	}
	if d := s.authz.allows(r.Context(), who.user, rd.review, opts); d != decisionAllow {
		return who.user, d
	}
	return who.user, known
}
