package proxy

import (
	"context"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/watchcache"
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		watchcache.WriteError(w, r, apierrors.NewServiceUnavailable("the proxy is shutting down"))
		return
	}
	defer s.leave()
	if s.parts(r) {
		w.Header().Set("Connection", "close")
	}
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the one that the connection's last request has left
	}
	a := &answer{ResponseWriter: w}
	defer a.limit(r)
	w = a
	switch r.URL.Path {
	case "/livez", "/healthz", "/readyz":
		if s.dropBody(w, r) {
			s.serveHealth(w, r)
		}
	case "/metrics":
		if s.dropBody(w, r) {
			s.serveMetrics(w, r)
		}
	default:
		s.admit(a, r)
	}
}

// answer answers a request, from here if it is a read that may be, or from upstream.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, rd *read) {
	switch {
	case rd != nil && s.serveRead(w, r, rd):
	case rd != nil && rd.ours && s.expired(w, r, rd):
	default:
		s.pass(w, r)
	}
}

// expired answers a read that goes on with a page of ours which cannot be given any more. It returns false for somebody who may not have it
// anyway: the upstream says so.
func (s *Server) expired(w http.ResponseWriter, r *http.Request, rd *read) bool {
	_, v := s.permits(r, rd)
	if v == no {
		return false
	}
	err := v.err()
	if err == nil {
		err = apierrors.NewResourceExpired("The provided continue parameter is too old. Start a new list without it.")
	}
	if s.dropBody(w, r) {
		watchcache.WriteError(w, r, err)
	}
	return true
}

// serveRead answers a read from what is held. It returns false if that cannot be, and nothing was answered.
func (s *Server) serveRead(w http.ResponseWriter, r *http.Request, rd *read) bool {
	begun := time.Now()
	h := s.holdings.find(rd.gvr)
	if h == nil && !s.holdings.wants(rd.gvr) {
		return false
	}
	prove := rd.fresh && (rd.name != "" || !s.holdings.cached[rd.gvr.GroupResource()]) || s.tooOld(h, rd)
	if prove && !s.proves(h, rd) {
		return false
	}
	if h != nil {
		if on := h.reads(); on == nil || !on.answers(r, rd) {
			return false
		}
	}
	who, v := s.permits(r, rd)
	switch {
	case h != nil && (v == refused || v == crowded):
		if s.dropBody(w, r) {
			watchcache.WriteError(w, r, v.err())
		}
		return true
	case v != yes && v != graced: // the upstream says it in its own words, or is not there to say anything
		return false
	case h == nil: // for those who come later
		s.holdings.take(rd.gvr)
		return false
	}
	on := h.session.Load()
	if on == nil {
		return false
	}
	if prove && !on.prover.current(r.Context()) {
		return false
	}
	gone := on.gone(rd, h.past.Load())
	switch {
	case gone:
	case !on.reaches(r.Context(), rd):
		s.passInTime(w, r, watchcache.TooLargeError(rd.least, on.feed.version()))
		return true
	case !on.answers(r, rd): // the log goes on while somebody is waited for
		return false
	}
	if p := placeOf(r); p != nil {
		if err := p.is(who); err != nil {
			s.refuse(w, r, err)
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
	case !s.dropBody(w, r):
	case gone:
		watchcache.WriteError(w, r, apierrors.NewResourceExpired("The server has gone back to an earlier state than resourceVersion "+rd.exact+"."))
	default:
		s.serveFrom(w, r, h, on, rd, who, v)
	}
	return true
}

// proves reports whether a read that must be current is to wait for a proof that what is held is: one that costs the upstream no more than
// that goes there. It is taken in first where it is not held.
func (s *Server) proves(h *held, rd *read) bool {
	if rd.fresh && (s.opts.PassConsistent || rd.name != "" || rd.few > 0 && rd.few < worthProof) {
		return false
	}
	if h == nil {
		return true
	}
	on := h.reads()
	return on != nil && on.store.Len() >= worthProof
}

// tooOld reports whether what is held is older than a read may be answered with, though it need not be current.
func (s *Server) tooOld(h *held, rd *read) bool {
	if s.opts.MaxStaleness <= 0 || h == nil || rd.exact != "" || rd.ours {
		return false
	}
	on := h.session.Load()
	return on != nil && time.Since(on.heard()) > s.opts.MaxStaleness
}

// serveFrom answers a read from a session. v is what the caller's permission is by.
func (s *Server) serveFrom(w http.ResponseWriter, r *http.Request, h *held, on *session, rd *read, who user.Info, v verdict) {
	s.served.WithLabelValues(rd.gvr.Group, rd.gvr.Resource, rd.review.verb).Inc()
	on.warnings.add(w.Header())
	w.Header().Set("Age", strconv.FormatInt(int64(max(time.Since(on.heard()), 0)/time.Second), 10))
	if rd.review.verb == "watch" {
		s.serveWatch(w, r, h, on, rd, who, v)
		return
	}
	defer gather(r)()
	on.serve(w, r, rd)
}

// permits returns who the caller is, and whether they may have the read.
func (s *Server) permits(r *http.Request, rd *read) (user.Info, verdict) {
	t := terms{grace: s.opts.Grace}
	who, known := s.authn.caller(r, t)
	if who == nil {
		return nil, known
	}
	if v := s.authz.allows(r.Context(), who.user, rd.review, t); v != yes {
		return who.user, v
	}
	return who.user, known
}

// passInTime is pass for a read that would be answered with late if the upstream did not answer it in time: one that is stalled does not.
func (s *Server) passInTime(w http.ResponseWriter, r *http.Request, late error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	timer := time.AfterFunc(s.opts.patience.read, func() { cancel(late) })
	defer timer.Stop()
	s.pass(&firstHeader{w, func() { timer.Stop() }}, r.WithContext(ctx))
}

// firstHeader tells when an answer begins.
type firstHeader struct {
	http.ResponseWriter
	begins func()
}

// Unwrap is for http.ResponseController.
func (f *firstHeader) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *firstHeader) WriteHeader(code int) {
	f.begins()
	f.ResponseWriter.WriteHeader(code)
}

// pass sends the request upstream in the caller's name.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	r = r.WithContext(ctx)
	w = newPacedWriter(w)
	upgrade := r.Header.Get("Upgrade") != ""
	switch ask, _ := s.urls.look(r); {
	case ask.info.Verb == "watch" && !upgrade:
		watch, p := s.endings.begin(w, r, cancel)
		defer s.endings.forget(p)
		r = watch
	case longRunning(ask.info) || upgrade: // a shutdown does not wait for it
		s.unfinished.add(-1)
		defer s.unfinished.add(1)
	}
	who, _ := s.authn.certified(r)
	switch {
	case who == nil && s.authn.unauthorized(r):
		watchcache.WriteError(w, r, errUnauthorized())
	case who == nil:
		s.upstream.serve(w, r, nil)
	case impersonates(r.Header):
		to, err := s.authz.asOther(ctx, who.user, r.Header)
		if err != nil {
			watchcache.WriteError(w, r, err)
			return
		}
		s.upstream.serve(w, r, to)
	default:
		s.upstream.serve(w, r, asItself(who.user))
	}
}
