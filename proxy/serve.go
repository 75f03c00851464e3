package proxy

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// ServeHTTP implements http.Handler. After Close, it answers 503.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		watchcache.WriteError(w, r, apierrors.NewServiceUnavailable("the proxy is shutting down"))
		return
	}
	defer s.end()
	client := conn.Of(r)
	few := client.Begin(r)
	defer client.End()
	detachURL(r)
	if s.sendsGoaway(r) {
		w.Header().Set("Connection", "close")
	}
	// Clear the deadline that http.Server.WriteTimeout set. The writers of tests do not support
	// deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	a := &responseWriter{ResponseWriter: w, isAccepted: func() bool { return s.isAccepted(r) }, major: r.ProtoMajor}
	defer a.limitFinalWrite(r)
	a.head = s.heads.Charge(r, a.isAccepted)
	defer a.head.Release()
	// net/http keeps the head until the client has read the response, so release it here
	if r.ProtoMajor == 2 {
		defer conn.ReleaseHead(r)
	}
	defer s.finish(a, r)
	switch {
	case a.head == nil:
		s.refuseEarly(a, r, errHeads)
		return
	case !few && !s.isAccepted(r):
		a.Header().Set("Connection", "close")
		s.refuseEarly(a, r, errTooManyUnknown)
		return
	}
	s.dispatch(a, r)
	if a.rest != nil {
		a.rest()
	}
}

// finish calls the functions that onEnd registered, even if the request panics. It must be
// deferred. It counts a panic of the proxy as 500 and logs it. net/http would log the panic among
// the errors that every misbehaving client causes. The client receives a broken response.
func (s *Server) finish(a *responseWriter, r *http.Request) {
	if a.panicked = recover(); a.panicked != nil {
		defer panic(http.ErrAbortHandler)
		if a.panicked != http.ErrAbortHandler {
			a.audit = nil // Record.Ended records the panic
			a.recordCode(http.StatusInternalServerError)
			s.opts.Log.Error("a request caused a panic", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(a.panicked), "stack", string(debug.Stack()))
		}
	}
	a.end()
}

// refuseEarly refuses a request with the given error (why), without parsing or reviewing it. It
// first releases the memory of the request's head.
func (s *Server) refuseEarly(a *responseWriter, r *http.Request, why error) {
	conn.ReleaseHead(r)
	a.startCounting(s.metrics, r, request.InfoOf(r.Method, r.URL))
	watchcache.WriteError(a, r, why)
	a.countRejected()
}

// isAccepted reports whether the request has a valid certificate, or a token that the upstream has
// accepted, now or earlier. If so, it also marks the request's connection as accepted.
func (s *Server) isAccepted(r *http.Request) bool {
	if _, key := s.cachedCaller(r); key == "" {
		return false
	}
	conn.Of(r).Accept()
	return true
}

var (
	// errHeads is the 429 for a request whose head does not fit into the memory for heads.
	errHeads = apierrors.NewTooManyRequests("The memory for the heads of requests is used up, please try again later.", retryAfterSeconds)
	// errTooManyUnknown is the 429 for a request on a connection without an accepted credential, if
	// too many requests on the connection are in progress.
	errTooManyUnknown = apierrors.NewTooManyRequests("Too many requests on a connection without an accepted credential.", retryAfterSeconds)
)

// dispatch answers a request, or stores the last part of the work in a.rest.
func (s *Server) dispatch(a *responseWriter, r *http.Request) {
	switch {
	case isHealthCheck(r):
		if err := s.discardBody(a, r); err != nil {
			watchcache.WriteError(a, r, err)
			return
		}
		s.serveHealth(a, r)
	case r.URL.Path == metricsPath && r.Method != http.MethodGet && r.Method != http.MethodHead:
		s.refuseMethod(a, r)
	default:
		s.admit(a, r)
	}
}

// serve answers /metrics, answers a read from the cache if possible, and forwards every other
// request. It may store the rest of the work in a.rest. rq is nil if request.Strict does not accept
// the request.
func (s *Server) serve(a *responseWriter, r *http.Request, rq *request.Request) {
	if rq != nil && !mayAnswer(r, rq) {
		rq, a.why = nil, forHeaders
	}
	switch {
	case r.URL.Path == metricsPath:
		if err := s.discardBody(a, r); err != nil {
			s.refuse(a, r, err)
			return
		}
		s.serveMetrics(a, r)
	case rq != nil && s.serveRead(a, r, rq):
	case rq != nil && rq.Continue != nil && s.expired(a, r, rq):
	default:
		if err := s.countUser(a, r); err != nil {
			s.reject(a, r, err)
			return
		}
		s.forwardedFor[a.why].Add(1)
		a.rest = func() { s.forward(a, r) }
	}
}

// mayAnswer reports whether the headers of a request allow the proxy to answer it. An Origin header
// means that a page in a browser sent the request. Such a page may read the answer only if CORS
// headers allow it, and only the upstream can set these headers.
func mayAnswer(r *http.Request, rq *request.Request) bool {
	return !review.HasImpersonation(r.Header) && r.Header.Get("Upgrade") == "" && r.Header.Get("Origin") == "" &&
		(rq.Watch || !ofTerminal(r) || strings.Contains(r.Header.Get("Accept"), "protobuf"))
}

// ofTerminal reports whether a request is from curl or Wget, for which kube-apiserver indents JSON.
// kube-apiserver also indents JSON for browsers, but dashboards in browsers do not need that. If a
// request accepts protobuf too, the session (the cache of the resource) determines whether the
// response is JSON.
func ofTerminal(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget")
}

// detachURL replaces the URL of a request whose target is long. The parts of the new URL do not
// share the memory of the target. Otherwise the whole target would stay in memory as long as one of
// its parts, some of which outlive the request. The host of an absolute target may have any length.
func detachURL(r *http.Request) {
	if len(r.RequestURI) <= request.MaxCachedBytes {
		return
	}
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = strings.Clone(u.Path), strings.Clone(u.RawPath), strings.Clone(u.RawQuery)
	r.URL = &u
}

// expired answers 410 to a continue token that the proxy issued and can no longer serve. In two
// cases the upstream must answer, so expired writes nothing and returns false. First, the caller
// may not read. Second, the caller accepts only representations that the proxy does not have; the
// upstream then answers 406 before it reads the token.
func (s *Server) expired(a *responseWriter, r *http.Request, rq *request.Request) bool {
	if s.mirror.RefusesToken(rq, ofTerminal(r)) {
		return false
	}
	_, d := s.authorize(r, rq)
	if d == review.Deny {
		return false
	}
	err := d.Err()
	if err == nil {
		err = apierrors.NewResourceExpired("The provided continue parameter is too old. Start a new list without it.")
	}
	s.refuseUnread(a, r, err)
	return true
}

// serveRead answers a read from the cache, or stores the rest of the work in a.rest. It returns
// false, and writes nothing, if the proxy cannot answer the read.
func (s *Server) serveRead(a *responseWriter, r *http.Request, rq *request.Request) bool {
	begun := time.Now()
	read, why := s.mirror.Read(rq, ofTerminal(r))
	if a.why = why; read == nil {
		return false
	}
	who, d := s.authorize(r, rq)
	if a.slot != nil {
		if err := a.slot.Identify(who); err != nil {
			s.reject(a, r, err)
			return true
		}
	}
	switch {
	case read.IsCached() && (d == review.Unanswered || d == review.Overloaded):
		s.refuseUnread(a, r, d.Err())
		return true
	case d != review.Allow && d != review.Grace: // forward: the upstream refuses with its own message
		a.why = forUnallowed
		return false
	case !read.IsCached():
		read.Add()
		return false
	}
	got := read.Wait(r.Context())
	switch a.why = got.Forward; {
	case got.Forward == mirror.NoReason:
		return s.answer(a, r, &servedRead{read, got.Session, who, d}, begun, got.Err)
	case got.Err != nil:
		s.forwardedFor[got.Forward].Add(1)
		a.rest = func() { s.forwardWithTimeout(a, r, got.Err) }
		return true
	}
	return false
}

// answer answers a read from its session (rq.session). If lost is not nil, it answers with that
// error instead. For a WATCH, it stores the rest of the work in a.rest. answer returns false, and
// writes nothing, if the audit log cannot record the read.
func (s *Server) answer(a *responseWriter, r *http.Request, rq *servedRead, begun time.Time, lost error) bool {
	record, err := s.auditor.Begin(r, review.Attributes(rq.Request, rq.who), rq.decision == review.Grace, begun)
	if err != nil {
		a.why = forUnaudited
		return false
	}
	if record != nil {
		record.AddID(a.Header())
		if rq.Verb == "watch" {
			record.LongRunning()
		}
		a.record(record, r)
	}
	if err := s.discardBody(a, r); err != nil {
		lost = err
	}
	if lost != nil {
		watchcache.WriteError(a, r, lost)
		return true
	}
	s.served.WithLabelValues(rq.Group, rq.Resource, rq.Verb).Inc()
	rq.session.AddHeaders(a.Header())
	r = r.WithContext(watchcache.WithPayer(r.Context(), s.seats.Unread.Payer(seats.ReviewFlow(rq.who))))
	if rq.Verb == "watch" {
		s.beginWatch(a, r, rq)
		return true
	}
	defer conn.BufferWrites(r)()
	rq.session.Cache().Serve(a, r, rq.Request)
	return true
}

// servedRead is a read that the proxy answers from a session of its cache.
type servedRead struct {
	*mirror.Read
	session  *mirror.Session
	who      user.Info
	decision review.Decision // the review decision that allowed the read
}

// authorize reviews the caller of a read. It returns the caller, and the decision whether the
// caller may do the read. The caller is nil if the request is not authenticated.
func (s *Server) authorize(r *http.Request, rq *request.Request) (user.Info, review.Decision) {
	opts := review.Options{Grace: s.opts.OutageGrace}
	who, d := s.authn.Authenticate(r, opts)
	if who == nil {
		return nil, d
	}
	if allowed := s.authz.Allows(r.Context(), who, rq, opts); allowed != review.Allow {
		return who, allowed
	}
	return who, d
}

// lastWriteTimeout bounds the write that is in progress when the proxy revokes a watch, that is,
// ends it because its caller lost the permission.
const lastWriteTimeout = time.Second

// beginWatch starts to serve a WATCH. It stores the rest of the work in a.rest: the function that
// serves the WATCH until it ends or its caller loses the permission. If there are too many starting
// watches, beginWatch instead answers 429.
func (s *Server) beginWatch(a *responseWriter, r *http.Request, rq *servedRead) {
	a.onEnd(rq.Watch())
	a.onEnd(s.servedWatches.add(r, rq.Request, rq.who))
	ctx, cancel := context.WithCancel(r.Context())
	a.onEnd(cancel)
	by, part := s.authz.PermissionOf(rq.who, rq.Request)
	check := s.rechecker.Watch(r, rq.who, by, part, rq.decision == review.Allow, func() {
		s.revoked.Add(1)
		cancel()
		a.limitWrite(lastWriteTimeout) // the write must not block forever: the client may read nothing
	})
	a.onEnd(check.Leave)
	release, ok := s.acquireStart(ctx, rq)
	if !ok {
		watchcache.WriteError(a, r, seats.ErrTooManyStarts)
		a.countRejected()
		return
	}
	defer release()
	a.rest = rq.session.Cache().Begin(a, r.WithContext(ctx), rq.Request)
}
