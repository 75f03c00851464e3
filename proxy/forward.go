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

// forwardWithTimeout forwards a read. If the upstream does not start to answer within
// timeouts.read, the client gets the given error (late).
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
	fw := &forwarding{answer: a}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	r = r.WithContext(ctx)
	info := request.InfoOf(r.Method, r.URL)
	long, upgrade := isLongRunning(info), asksForUpgrade(r)
	dw := newDeadlineWriter(a)
	if !long { // the request has a seat
		dw = newPacedWriter(a)
		dw.buffer = func() func() { return conn.BufferWrites(r) }
	}
	defer dw.end()
	dw.request, dw.answer = ctx, a
	if a.slot != nil {
		if a.slot.Grow(copyBuffer); upgrade {
			// an upgraded connection has a second buffer, for the other direction
			a.slot.Grow(copyBuffer)
		}
	}
	as, record, err := s.sender(r, info)
	if err != nil {
		s.refuseUnread(a, r, err)
		return
	}
	fw.as = as
	readsAhead := as != nil || s.upstream.accepts(r) // the transport uses HTTP/2, so it reads ahead
	if a.slot != nil && readsAhead {
		dw.writing = &s.writing
	} else if a.slot == nil && a.seat.Pool != nil {
		if err := s.chargeAnswer(r, a, readsAhead); err != nil {
			s.refuseUnread(a, r, err)
			return
		}
	}
	defer s.limitBody(dw, r, !long)()
	switch {
	case info.Verb == "watch":
		p := s.forwardedWatches.begin(dw, cancel)
		defer s.forwardedWatches.forget(p)
		fw.watch = p
		// The WATCH may start at a resourceVersion from before a restore of the upstream. That is
		// possible if the upstream went back in time after the proxy checked the WATCH, or if the proxy
		// did not check it. p.lost is used only if the upstream accepts the WATCH. A caller without
		// permission to watch gets the upstream's refusal.
		p.setStart(request.QueryOf(r.URL))
		p.lost = s.mirror.LostFrom(info.GVR(), p.from)
	case long || upgrade: // a shutdown does not wait for the request
		s.unfinished.Add(-1)
		defer s.unfinished.Add(1)
	}
	if record != nil {
		if long {
			record.LongRunning()
		}
		a.record(record, a.r) // not r, whose context ends when forward returns
		r = record.Forward(r)
	}
	s.upstream.serve(dw, r, fw)
}

// sender returns the identity with which a request is forwarded, and the audit record of an
// impersonation. A nil identity means that the request is forwarded with its own credentials. A nil
// record means that the audit log records nothing. If sender returns an error, the caller must
// refuse the request with that error. sender must not read the body of the request, because no
// deadline bounds such reads yet.
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

// errHeadersUnknown is the 503 for a request that the proxy must forward with its own certificate,
// when it cannot read which headers the upstream accepts from front proxies. The upstream might
// take the proxy for a front proxy, and trust a header in which the caller names another user.
var errHeadersUnknown = review.Unavailable("the proxy cannot read by which headers front proxies name callers of the upstream API server")
