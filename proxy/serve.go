package proxy

import (
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
)

// ServeHTTP answers one request.
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
	// Clear the deadline of http.Server.WriteTimeout. The writers of tests do not support it.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	a := &responseWriter{ResponseWriter: w, isAccepted: func() bool { return s.isAccepted(r) }, major: r.ProtoMajor}
	defer a.limitFinalWrite(r)
	a.head = s.heads.Charge(r, a.isAccepted)
	defer a.head.Release()
	if r.ProtoMajor == 2 { // net/http keeps it until the response was read
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

// finish ends what a request has, also if that panics. It must be deferred. A panic of the proxy
// itself counts as 500 and is logged here, since net/http logs those of all clients that send
// nonsense too; the client sees in any case that the answer was broken off.
func (s *Server) finish(a *responseWriter, r *http.Request) {
	if a.panicked = recover(); a.panicked != nil {
		defer panic(http.ErrAbortHandler)
		if a.panicked != http.ErrAbortHandler {
			a.recordCode(http.StatusInternalServerError)
			s.opts.Log.Error("a request has made the proxy panic", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(a.panicked), "stack", string(debug.Stack()))
		}
	}
	a.end()
}

// refuseEarly answers a request of which nothing was looked at, and drops its head before that.
func (s *Server) refuseEarly(a *responseWriter, r *http.Request, why error) {
	method := r.Method
	conn.ReleaseHead(r)
	a.startCounting(s.metrics, r, request.InfoOf(method, r.URL))
	a.onEnd(a.finish)
	watchcache.WriteError(a, r, why)
	a.countRejected()
}

// isAccepted reports whether the credential of a request was accepted, now or before, and notes
// that for its connection.
func (s *Server) isAccepted(r *http.Request) bool {
	if _, key := s.cachedCaller(r); key == "" {
		return false
	}
	conn.Of(r).Accept()
	return true
}

var (
	// errHeads is the 429 of a request for whose head there is no room.
	errHeads = apierrors.NewTooManyRequests("The heads of requests take all the memory that they may, please try again later.", retryAfterSeconds)
	// errTooManyUnknown is the 429 of a request on an unknown connection with too many requests.
	errTooManyUnknown = apierrors.NewTooManyRequests("Too many requests on a connection without an accepted credential.", retryAfterSeconds)
)

// dispatch does everything for a request but a.rest.
func (s *Server) dispatch(a *responseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/livez", "/healthz", "/readyz":
		if err := s.discardBody(a, r); err != nil {
			watchcache.WriteError(a, r, err)
			return
		}
		s.serveHealth(a, r)
	case metricsPath:
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.refuseMethod(a, r)
			return
		}
		s.admit(a, r)
	default:
		s.admit(a, r)
	}
}

// serve answers /metrics, and a read itself if it can, and forwards every other request. rq is nil
// unless the request is strict.
func (s *Server) serve(a *responseWriter, r *http.Request, rq *request.Request) {
	if rq != nil && !mayAnswer(r, rq) {
		rq = nil
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
		a.rest = func() { s.forward(a, r) }
	}
}

// mayAnswer reports whether the headers of a request let the proxy answer it. A request with an
// Origin comes from a page in a browser, which may read the answer if the CORS headers allow that,
// and only the upstream knows those.
func mayAnswer(r *http.Request, rq *request.Request) bool {
	return !review.HasImpersonation(r.Header) && r.Header.Get("Upgrade") == "" && r.Header.Get("Origin") == "" &&
		(rq.Watch || !ofTerminal(r) || strings.Contains(r.Header.Get("Accept"), "protobuf"))
}

// ofTerminal reports whether a request is of a program at a terminal, for which kube-apiserver
// indents JSON, and nothing else. It does so for browsers as well, whose dashboards need no
// indents. Where a request accepts protobuf too, session.canServe finds out whether the response is
// JSON.
func ofTerminal(r *http.Request) bool {
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget")
}

// detachURL gives a request with a long target a URL whose parts do not share the memory of the
// target, since some of them are kept after the request. The host of an absolute target may have
// any length.
func detachURL(r *http.Request) {
	if len(r.RequestURI) <= request.MaxCachedBytes {
		return
	}
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = strings.Clone(u.Path), strings.Clone(u.RawPath), strings.Clone(u.RawQuery)
	r.URL = &u
}

// expired answers 410 to a continue token of ours that can no longer be served. It returns false if
// the caller may not read, or accepts only what the proxy does not have: the upstream says so. It
// answers 406 before it looks at the token, and it understands the token.
func (s *Server) expired(w http.ResponseWriter, r *http.Request, rq *request.Request) bool {
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
	s.refuseUnread(w, r, err)
	return true
}

// serveRead answers a read from a session, or begins to. It returns false, with nothing written, if
// it cannot.
func (s *Server) serveRead(a *responseWriter, r *http.Request, rq *request.Request) bool {
	begun := time.Now()
	read := s.mirror.Read(rq, ofTerminal(r))
	if read == nil {
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
	case d != review.Allow && d != review.Grace: // the upstream answers, with its own message
		return false
	case !read.IsCached():
		read.Add()
		return false
	}
	got := read.Wait(r.Context())
	switch {
	case got == mirror.Outcome{}:
		return false
	case got.Late:
		a.rest = func() { s.forwardWithTimeout(a, r, got.Err) }
		return true
	}
	return s.answer(a, r, &servedRead{read, got.Session, who, d}, begun, got.Err)
}

// answer answers a read from a session, or begins to, or, if lost is not nil, with that. It returns
// false, with nothing written, if the read cannot be recorded.
func (s *Server) answer(a *responseWriter, r *http.Request, rq *servedRead, begun time.Time, lost error) bool {
	record, err := s.auditor.Begin(r, review.Attributes(rq.Request, rq.who), rq.decision == review.Grace, begun)
	if err != nil {
		return false
	}
	w := http.ResponseWriter(a)
	if record != nil {
		noted := record.Writer(a, rq.Verb == "watch")
		a.onEnd(func() { noted.Ended(a.panicked) })
		w = noted
	}
	if err := s.discardBody(w, r); err != nil {
		lost = err
	}
	if lost != nil {
		watchcache.WriteError(w, r, lost)
		return true
	}
	s.serveFrom(a, w, r, rq)
	return true
}

// servedRead is a read that is answered from a session.
type servedRead struct {
	*mirror.Read
	session  *mirror.Session
	who      user.Info
	decision review.Decision // that allowed it
}

// serveFrom answers a read, or begins to. It writes to w, a or a writer above it.
func (s *Server) serveFrom(a *responseWriter, w http.ResponseWriter, r *http.Request, rq *servedRead) {
	s.served.WithLabelValues(rq.Group, rq.Resource, rq.Verb).Inc()
	rq.session.AddHeaders(w.Header())
	r = r.WithContext(watchcache.WithPayer(r.Context(), s.seats.Unread.Payer(rq.who)))
	if rq.Verb == "watch" {
		s.beginWatch(a, w, r, rq)
		return
	}
	defer conn.BufferWrites(r)()
	rq.session.Cache().Serve(w, r, rq.Request)
}

// authorize returns the caller, and whether they may do the read.
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
