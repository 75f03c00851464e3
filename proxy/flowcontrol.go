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
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

const (
	// maxQuery bounds the length of a request's query, in bytes. kube-apiserver bounds only the whole
	// head, at 1 MiB, and needs a second to parse a selector of that size.
	maxQuery = 64 << 10
	// maxParams bounds the number of a request's query parameters. With more parameters, a proxy
	// that is built with Go 1.26 or later parses none of them. A kube-apiserver that is built with
	// an older Go parses all of them, and might serve a WATCH where the proxy sees a LIST.
	maxParams = 10_000
	// retryAfterSeconds is the Retry-After header, in seconds, of the response to a rejected
	// request.
	retryAfterSeconds = 1
)

// isLongRunning reports whether kube-apiserver treats the request as long-running.
func isLongRunning(info *request.Info) bool {
	return info.Verb == "watch" || info.Verb == "proxy" ||
		info.OfResource && slices.Contains([]string{"attach", "exec", "proxy", "log", "portforward"}, info.Subresource)
}

// asksForUpgrade reports whether the request has an Upgrade header that ReverseProxy forwards.
// ReverseProxy forwards it only if the Connection header names Upgrade.
func asksForUpgrade(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" && httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
}

// errTooMany is the 429 for a request that got no seat, because too many requests are in progress.
var errTooMany = apierrors.NewTooManyRequests("Too many requests, please try again later.", retryAfterSeconds)

func queryTooLong(at *url.URL) bool {
	return len(at.RawQuery) > maxQuery || strings.Count(at.RawQuery, "&") >= maxParams
}

// errQueryTooLong is the 414 for a request for which queryTooLong is true.
var errQueryTooLong = watchcache.NewStatusError(http.StatusRequestURITooLong, metav1.StatusReasonRequestEntityTooLarge,
	fmt.Sprintf("The query of the request is longer than %d bytes, or has more than %d parameters.", maxQuery, maxParams))

// errOpaqueTarget is the 400 for a request target that has a scheme but no slash after the scheme,
// such as x:https://host/api/v1/pods?watch=1. The proxy would find no path in the target.
// kube-apiserver would receive the part after the scheme, and might find the path of a WATCH there.
var errOpaqueTarget = apierrors.NewBadRequest("The target of the request is neither a path nor an absolute URL.")

// reject answers a request that flow control does not admit. It answers with the given error (why),
// and counts the request as rejected. If the connection was accepted above the limit, reject also
// closes it.
func (s *Server) reject(a *responseWriter, r *http.Request, why error) {
	if conn.Of(r).OverLimit() {
		a.Header().Set("Connection", "close")
	}
	s.refuseUnread(a, r, why)
	a.countRejected()
}

// flowOf returns the flow of a request, that is, the caller for which flow control counts it. Flows
// share the seats (places among the requests in progress) fairly. flowOf sends no review. Each
// caller with a valid certificate, or with a token that was accepted before, has a separate flow.
// All other requests share flows by client address: requests with an unknown token have one flow
// for each address, and requests without a credential have another.
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

// unknownFlow returns the flow of a request whose caller the proxy does not know. If the proxy
// refuses the identity in the certificate, the request counts as one without a credential, even if
// it has a token.
func (s *Server) unknownFlow(r *http.Request) seats.Flow {
	id := review.TokenID(r)
	if _, err := s.authn.ByCertificate(r); id == ([sha256.Size]byte{}) || errors.Is(err, review.ErrIdentityRefused) {
		return seats.Flow{Level: seats.Anonymous, Caller: conn.Source(r.RemoteAddr)}
	}
	return seats.Flow{Level: seats.NewTokens, Caller: conn.Source(r.RemoteAddr), Token: seats.TokenKey(id)}
}

// cachedCaller returns the caller of a request and a key for the caller, without sending a review.
// The key is empty if the caller is unknown. If the upstream has accepted the token and the proxy
// does not know its user, the key is set and who is nil.
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

// review marks the request's connection as under review if the token of the request is not known
// yet.
func (a *responseWriter) review(r *http.Request, f seats.Flow) {
	if f.Level == seats.NewTokens {
		a.reviewed = conn.Of(r)
		a.reviewed.BeginReview()
	}
}

// admit waits until flow control admits a request, and then serves it. Before the wait, admit
// parses only two parts of the query: whether the request is a WATCH, and the name in a small field
// selector.
func (s *Server) admit(a *responseWriter, r *http.Request) {
	if queryTooLong(r.URL) {
		bare := *r.URL
		bare.RawQuery = ""
		a.startCounting(s.metrics, r, request.InfoOf(r.Method, &bare))
		s.reject(a, r, errQueryTooLong)
		return
	}
	info := request.InfoOf(r.Method, r.URL)
	a.startCounting(s.metrics, r, info)
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
		a.head.Release() // a.slot counts the memory of the head from now on, see extraHead
	}
	a.onEnd(a.leave)
	if long {
		a.review(r, f)
		s.admitLongRunning(a, r, f)
		return
	}
	in := s.seats.Writes
	if slices.Contains([]string{"get", "list", "head"}, info.Verb) {
		in = s.seats.Reads
	}
	if !in.Acquire(r.Context(), f) {
		s.reject(a, r, errTooMany)
		return
	}
	a.seat = seats.Seat{Pool: in, Flow: f}
	a.review(r, f)
	s.serve(a, r, request.Strict(r))
}

// usualHead is the memory for the head of a request (request line and headers) that the charge for
// each watch includes, see seats.WatchBytes. net/http keeps the head until the request ends.
const usualHead = 4 << 10

// extraHead estimates by how many bytes the head of a request exceeds usualHead.
func extraHead(r *http.Request) int64 { return max(conn.HeadBytes(r)-usualHead, 0) }

// bodyBytes estimates the memory for the body of a long-running request. The memory is a retry
// buffer, which lives until the request ends, or an HTTP/2 window of the same size, which lives
// until the body is read.
func bodyBytes(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return maxBuffered
	}
	return min(r.ContentLength, maxBuffered)
}

// countUser counts a long-running request under its user before the request is forwarded. Until
// then the request counts under its token, because the proxy has not reviewed the token. Counts by
// token do not limit a user, who may have any number of tokens. If the review fails, the request
// remains counted under its token. If the user has too many long-running requests, countUser
// returns the Status with which to reject the request.
func (s *Server) countUser(a *responseWriter, r *http.Request) error {
	p := a.slot
	if p == nil || p.Asked() || !p.ByToken() {
		return nil
	}
	who, _ := s.authn.Authenticate(r, review.Options{})
	return p.Identify(who)
}

// admitLongRunning serves a long-running request, which already has a slot, that is, a place among
// the long-running requests. If the query is not in the cache of parsed requests, admitLongRunning
// first waits for a seat to parse the query.
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

// acquireStart waits until a WATCH that starts with the initial state gets a seat, because only few
// such WATCHes may start at the same time. If the WATCH gets no seat, acquireStart returns false,
// and the WATCH must not start. If it returns true, the caller must call release. A timer releases
// the seat earlier if the client does not read the state in time, so that slow clients do not delay
// other clients.
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

// onAccepted starts a lookup of the owner of a token that the upstream has just accepted. It starts
// none if a review of request r has already asked for the owner. The request r must be in progress.
// If r is long-running, onAccepted also counts it as a request of a known caller.
func (s *Server) onAccepted(r *http.Request, id [sha256.Size]byte) {
	if a := forwardingOf(r).answer; a.slot != nil {
		if a.slot.Accept(); a.slot.Asked() {
			return
		}
	}
	s.learnOwner(r, id)
}

// learnOwner starts a lookup of the owner of a token that the upstream may have accepted.
func (s *Server) learnOwner(r *http.Request, id [sha256.Size]byte) {
	s.authn.LearnOwner(s.closing, r, id, s.inFlight.Go)
}
