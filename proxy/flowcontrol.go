package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

const (
	// maxQuery bounds the query of a request, in bytes. kube-apiserver bounds only the whole head,
	// at 1 MiB, and takes a second to parse a selector of that size.
	maxQuery = 64 << 10
	// maxParams bounds its parameters. Of more, Go reads none, since 1.26, and an older
	// kube-apiserver all: it would watch what the proxy takes for a LIST.
	maxParams = 10_000
	// retryAfterSeconds is the Retry-After of a rejected request.
	retryAfterSeconds = 1
)

// seatsFor returns the pool of a request that is not long-running.
func (s *Server) seatsFor(info *request.Info) *seats.Pool {
	if slices.Contains([]string{"get", "list", "head"}, info.Verb) {
		return s.seats.Reads
	}
	return s.seats.Writes
}

// isLongRunning reports whether kube-apiserver counts the request as long-running.
func isLongRunning(info *request.Info) bool {
	return info.Verb == "watch" || info.Verb == "proxy" ||
		info.OfResource && slices.Contains([]string{"attach", "exec", "proxy", "log", "portforward"}, info.Subresource)
}

// asksForUpgrade reports whether a request is forwarded with its Upgrade header, as ReverseProxy
// does if the Connection header names that.
func asksForUpgrade(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// errTooMany is the 429 of a request that found no seat.
var errTooMany = apierrors.NewTooManyRequests("Too many requests, please try again later.", retryAfterSeconds)

// queryTooLong reports whether a query is longer than maxQuery, or has more than maxParams.
func queryTooLong(at *url.URL) bool {
	return len(at.RawQuery) > maxQuery || strings.Count(at.RawQuery, "&") >= maxParams
}

// errQueryTooLong returns the 414 for such a query.
func errQueryTooLong() error {
	return statusError(http.StatusRequestURITooLong, metav1.StatusReasonRequestEntityTooLarge,
		fmt.Sprintf("The query of the request is longer than %d bytes, or has more than %d parameters.", maxQuery, maxParams))
}

// errOpaqueTarget is the 400 of a request target with a scheme and no slash after it, such as
// x:https://host/api/v1/pods?watch=1. The proxy would see no path in it, and kube-apiserver, which
// gets what follows the scheme, the path of a WATCH.
var errOpaqueTarget = apierrors.NewBadRequest("The target of the request is neither a path nor an absolute URL.")

// reject answers a request that was not admitted.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, why error) {
	if conn.Of(r).OverLimit() {
		w.Header().Set("Connection", "close")
	}
	s.refuseUnread(w, r, why)
	if a, ok := w.(*responseWriter); ok {
		a.countRejected()
	}
}

// flowOf returns the flow of a request without a review: a caller is known by a certificate, or by
// a token that was accepted before. All others share by their source, those with a token that is
// not known yet apart from those without a credential.
func (s *Server) flowOf(r *http.Request, info *request.Info) seats.Flow {
	who, key := s.cachedCaller(r)
	if key == "" {
		return s.unknownFlow(r)
	}
	f := seats.Flow{Level: seats.Everyone, Caller: key}
	system := who != nil && seats.IsSystem(who)
	lease := info.Group == "coordination.k8s.io" && info.Resource == "leases"
	switch {
	case lease && system:
		f.Level = seats.SystemLeases
	case lease:
		f.Level = seats.Leases
	case system:
		f.Level = seats.System
	}
	return f
}

// unknownFlow returns the flow of a caller that is not known. An identity that is refused is none,
// whatever token comes with it.
func (s *Server) unknownFlow(r *http.Request) seats.Flow {
	id := review.TokenID(r)
	if _, err := s.authn.ByCertificate(r); id == ([sha256.Size]byte{}) || errors.Is(err, review.ErrIdentityRefused) {
		return seats.Flow{Level: seats.Anonymous, Caller: sourceOf(r)}
	}
	return seats.Flow{Level: seats.NewTokens, Caller: sourceOf(r), Token: seats.TokenKey(id)}
}

// sourceOf returns where a request comes from.
func sourceOf(r *http.Request) string { return conn.Source(r.RemoteAddr) }

// cachedCaller returns a key for the caller, which is empty if the caller is unknown, and the user
// if that is known.
func (s *Server) cachedCaller(r *http.Request) (who user.Info, key string) {
	c, err := s.authn.ByCertificate(r)
	switch {
	case c != nil:
		return c, seats.UserKey(c)
	case errors.Is(err, review.ErrIdentityRefused):
		return nil, ""
	}
	id := review.TokenID(r)
	if who, ok := s.authn.Known(id); ok {
		return who, seats.UserKey(who)
	}
	if _, ok := s.upstream.acceptedTokens.Get(id); ok {
		return nil, seats.TokenKey(id)
	}
	return nil, ""
}

// review notes that the token of a request may be under review from now on.
func (a *responseWriter) review(r *http.Request, f seats.Flow) {
	if f.Level == seats.NewTokens {
		a.reviewed = conn.Of(r)
		a.reviewed.BeginReview()
	}
}

// admit answers a request once flow control admits it. Before that it parses nothing of the query
// but whether it is a WATCH, and a small field selector, for the name in it.
func (s *Server) admit(a *responseWriter, r *http.Request) {
	if queryTooLong(r.URL) {
		bare := *r.URL
		bare.RawQuery = ""
		a.startCounting(s.metrics, r, request.InfoOf(r.Method, &bare))
		a.onEnd(a.finish)
		s.reject(a, r, errQueryTooLong())
		return
	}
	info := request.InfoOf(r.Method, r.URL)
	a.startCounting(s.metrics, r, info)
	a.onEnd(a.finish)
	switch {
	case conn.Of(r).OverLimit():
		s.reject(a, r, errTooMany)
		return
	case r.URL.Opaque != "":
		s.refuseUnread(a, r, errOpaqueTarget)
		return
	}
	r = s.authn.WithIdentity(r)
	f := s.flowOf(r, info)
	if !f.Level.BySource() {
		a.accepted = true
		conn.Of(r).Accept()
	}
	long, upgrade := isLongRunning(info), asksForUpgrade(r)
	if long || upgrade {
		p, err := s.seats.Watches.Acquire(f, extraHead(r)+bodyBytes(r))
		if err != nil {
			s.reject(a, r, err)
			return
		}
		a.slot = p
		a.head.Release() // the slot counts it, see extraHead
	}
	a.onEnd(a.leave)
	if long {
		a.review(r, f)
		s.admitLongRunning(a, r, f)
		return
	}
	in := s.seatsFor(info)
	if !in.Acquire(r.Context(), f) {
		s.reject(a, r, errTooMany)
		return
	}
	a.seat = seats.Seat{Pool: in, Flow: f}
	a.review(r, f)
	s.serve(a, r, request.Strict(r))
}

// usualHead is the part of seats.WatchBytes for the head of the request, which net/http keeps until
// the request ends.
const usualHead = 4 << 10

// extraHead estimates by how much the head of a request is larger than usualHead.
func extraHead(r *http.Request) int64 { return max(conn.HeadBytes(r)-usualHead, 0) }

// bodyBytes estimates the memory of the body of a long-running request: of a buffer for a retry,
// until the request ends, or of an HTTP/2 window of the same size, until the body is read.
func bodyBytes(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return maxBuffered
	}
	return min(r.ContentLength, maxBuffered)
}

// countUser counts a long-running request that is to be forwarded under its user. Before, the
// request counts under its token, since the proxy has not reviewed the token, and a user may have
// any number of tokens. If the review fails, it remains counted under the token. The error is the
// Status to reject the request with.
func (s *Server) countUser(a *responseWriter, r *http.Request) error {
	p := a.slot
	if p == nil || p.Asked() || !p.ByToken() {
		return nil
	}
	who, _ := s.authn.Authenticate(r, review.Options{})
	return p.Identify(who)
}

// admitLongRunning answers a long-running request, which has its slot, once flow control lets it be
// parsed.
func (s *Server) admitLongRunning(a *responseWriter, r *http.Request, f seats.Flow) {
	rq, cached := request.CachedStrict(r)
	if !cached {
		in := s.seats.Parsing
		if !in.Acquire(r.Context(), f) {
			s.reject(a, r, errTooMany)
			return
		}
		rq = request.Strict(r)
		in.Release(f)
	}
	s.serve(a, r, rq)
}

// acquireStart takes the seat of a WATCH that begins with the state, and reports whether it has
// one. The caller must release it. It is released earlier if the client does not take the state in
// time, so that slow clients do not hold up others.
func (s *Server) acquireStart(ctx context.Context, rq *servedRead) (release func(), ok bool) {
	if !mirror.SendsState(rq.Request) {
		return func() {}, true
	}
	in, f := s.seats.Starts, seats.ReviewFlow(rq.who)
	if !in.Acquire(ctx, f) {
		return nil, false
	}
	once := sync.OnceFunc(func() { in.Release(f) })
	timer := time.AfterFunc(s.opts.timeouts.hold, once)
	return func() {
		timer.Stop()
		once()
	}, true
}

// onAccepted has the owner of a token looked up that the upstream has just accepted. The caller is
// a request that is in flight.
func (s *Server) onAccepted(r *http.Request, id [sha256.Size]byte) {
	if a, ok := r.Context().Value(answerKey{}).(*responseWriter); ok && a.slot != nil {
		if a.slot.Accept(); a.slot.Asked() {
			return
		}
	}
	s.learnOwner(r, id)
}

// learnOwner has the owner of a token looked up that the upstream has perhaps accepted.
func (s *Server) learnOwner(r *http.Request, id [sha256.Size]byte) {
	s.authn.LearnOwner(s.closing, r, id, s.inFlight.Go)
}
