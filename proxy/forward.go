package proxy

import (
	"context"
	"net/http"
	"time"

	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/audit"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/review"
)

// forwardWithTimeout forwards a read, and answers it with late if the upstream has not begun to
// answer in time.
func (s *Server) forwardWithTimeout(a *responseWriter, r *http.Request, late error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	timer := time.AfterFunc(s.opts.timeouts.read, func() { cancel(late) })
	defer timer.Stop()
	a.onCode = func() { timer.Stop() }
	s.forward(a, r.WithContext(ctx))
}

// forward sends the request upstream with the caller's identity.
func (s *Server) forward(a *responseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), answerKey{}, a))
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	r = r.WithContext(ctx)
	info := request.InfoOf(r.Method, r.URL)
	long, upgrade := isLongRunning(info), asksForUpgrade(r)
	dw := newDeadlineWriter(a)
	if !long { // it has a seat
		dw = newPacedWriter(a)
		dw.buffer = func() func() { return conn.BufferWrites(r) }
	}
	defer dw.end()
	dw.request, dw.answer = ctx, a
	if a.slot != nil {
		if a.slot.Grow(copyBuffer); upgrade {
			a.slot.Grow(copyBuffer) // for the other way
		}
	}
	w := http.ResponseWriter(dw)
	as, record, err := s.sender(r, info)
	if err != nil {
		s.refuseUnread(w, r, err)
		return
	}
	readsAhead := as != nil || s.upstream.accepts(r) // by HTTP/2
	switch {
	case a.slot != nil && readsAhead:
		dw.writing = &s.writing
	case a.slot == nil && a.seat.Pool != nil:
		if err := s.chargeAnswer(r, a, readsAhead); err != nil {
			s.refuseUnread(w, r, err)
			return
		}
	}
	defer s.limitBody(w, r, !long)()
	switch {
	case info.Verb == "watch":
		watch, p := s.forwardedWatches.begin(w, r, cancel)
		defer s.forwardedWatches.forget(p)
		// The upstream may have gone back while the request was judged, or nothing was judged. Who may
		// not watch gets the refusal of the upstream.
		p.setStart(request.QueryOf(r.URL))
		p.lost = s.mirror.LostFrom(info.GVR(), p.from)
		r = watch
	case long || upgrade: // a shutdown does not wait for it
		s.unfinished.Add(-1)
		defer s.unfinished.Add(1)
	}
	if record != nil {
		noted, recorded := record.Forward(w, r, long)
		defer noted.End()
		w, r = noted, recorded
	}
	s.upstream.serve(w, r, as)
}

// sender returns whom a request is forwarded as, and the audit record of an impersonation. nil: the
// request says itself who sends it; nothing is recorded. The error is what a request is refused
// with. The body has not been read then, and its reads are not bounded yet.
func (s *Server) sender(r *http.Request, info *request.Info) (*transport.ImpersonationConfig, *audit.Record, error) {
	who, _ := s.authn.ByCertificate(r)
	if who == nil && s.authn.Unauthenticated(r) {
		return nil, nil, review.Unauthorized()
	}
	if err := review.CheckImpersonation(r.Header); err != nil {
		return nil, nil, err
	}
	if who == nil {
		return nil, nil, nil
	}
	if s.upstream.hasCertificate && s.authn.MissesCAs() {
		return nil, nil, errHeadersUnknown
	}
	to, err := review.ReadImpersonation(r.Header)
	switch {
	case err != nil:
		return nil, nil, err
	case to == nil:
		return review.ImpersonationOf(who), nil, nil
	}
	if err := s.authz.AllowImpersonation(r.Context(), who, to); err != nil {
		return nil, nil, err
	}
	record, err := s.auditor.Impersonated(r, s.unreviewedAttributes(r, info), to, time.Now())
	return to, record, err
}

// errHeadersUnknown is the 503 of a request that would be forwarded with the proxy's own
// certificate before the proxy could read which headers of it the upstream may believe.
var errHeadersUnknown = review.Unavailable("the proxy cannot read by which headers front proxies name callers of the upstream API server")
