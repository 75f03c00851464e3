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

	"golang.org/x/net/http/httpguts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/conn"
)

const (
	// maxQuery bounds the query of a request, in bytes. kube-apiserver bounds only the whole head,
	// at 1 MiB, and takes a second to parse a selector of that size.
	maxQuery = 64 << 10
	// maxParams bounds its parameters. Of more, Go reads none, since 1.26, and an older
	// kube-apiserver all: it would watch what the proxy takes for a LIST.
	maxParams = 10_000
	// maxParsing bounds the WATCHes whose selectors are being parsed, which takes milliseconds.
	maxParsing = 64
	// retryAfterSeconds is the Retry-After of a rejected request.
	retryAfterSeconds = 1
)

// flowControl bounds requests. Reads and all other short requests wait for seats; long-running
// requests are bounded by their number and memory. A short request that asks for an upgrade of its
// connection is bounded by both, and gives up its seat once that is upgraded.
type flowControl struct {
	readOnly, mutating *seatPool
	longRunning        *longRunningLimiter
	parsing            *seatPool // for long-running requests while their selectors are parsed
	reviews            *seatPool // for reviews of callers
	watchStarts        *seatPool // for WATCHes while they are sent the state
}

func newFlowControl(o *Options) *flowControl {
	return &flowControl{
		readOnly:    newSeatPool(o.MaxRequests, o.timeouts.seat),
		mutating:    newSeatPool(o.MaxMutating, o.timeouts.seat),
		longRunning: newLongRunningLimiter(o),
		parsing:     newSeatPool(maxParsing, o.timeouts.seat),
		reviews:     newReviewSeats(o.timeouts.review),
		watchStarts: newWatchStarts(o),
	}
}

// seatsFor returns the pool of a request that is not long-running.
func (a *flowControl) seatsFor(info *request.Info) *seatPool {
	if slices.Contains([]string{"get", "list", "head"}, info.Verb) {
		return a.readOnly
	}
	return a.mutating
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

// errTooManyStarts is the 429 of a WATCH that found no seat to begin.
var errTooManyStarts = apierrors.NewTooManyRequests("Too many watches begin at the same time, please try again later.", longRunningRetrySeconds)

// errTooMany is the 429 of a request that found no seat.
var errTooMany = apierrors.NewTooManyRequests("Too many requests, please try again later.", retryAfterSeconds)

// queryTooLong reports whether a query is longer than maxQuery, or has more than maxParams.
func queryTooLong(at *url.URL) bool {
	return len(at.RawQuery) > maxQuery || strings.Count(at.RawQuery, "&") >= maxParams
}

// errQueryTooLong returns the 414 for such a query.
func errQueryTooLong() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestURITooLong, Reason: metav1.StatusReasonRequestEntityTooLarge,
		Message: fmt.Sprintf("The query of the request is longer than %d bytes, or has more than %d parameters.", maxQuery, maxParams),
	}}
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
func (s *Server) flowOf(r *http.Request, info *request.Info) flow {
	who, key := s.cachedCaller(r)
	if key == "" {
		return s.unknownFlow(r)
	}
	f := flow{level: levelEveryone, caller: key}
	system := who != nil && isSystem(who)
	lease := info.Group == "coordination.k8s.io" && info.Resource == "leases"
	switch {
	case lease && system:
		f.level = levelSystemLeases
	case lease:
		f.level = levelLeases
	case system:
		f.level = levelSystem
	}
	return f
}

// unknownFlow returns the flow of a caller that is not known. An identity that is refused is none,
// whatever token comes with it.
func (s *Server) unknownFlow(r *http.Request) flow {
	id := tokenID(r)
	if _, err := s.authn.byCertificate(r); id == ([sha256.Size]byte{}) || errors.Is(err, errIdentityRefused) {
		return flow{level: levelAnonymous, caller: sourceOf(r)}
	}
	return flow{level: levelNewTokens, caller: sourceOf(r), token: tokenKey(id)}
}

// sourceOf returns where a request comes from.
func sourceOf(r *http.Request) string { return conn.Source(r.RemoteAddr) }

// cachedCaller returns a key for the caller, which is empty if the caller is unknown, and the user
// if that is known.
func (s *Server) cachedCaller(r *http.Request) (who user.Info, key string) {
	c, err := s.authn.byCertificate(r)
	switch {
	case c != nil:
		return c.user, userKey(c.user)
	case errors.Is(err, errIdentityRefused):
		return nil, ""
	}
	id := tokenID(r)
	if last, ok := s.authn.tokenAnswers.get(id); ok {
		return last.user, userKey(last.user)
	}
	if _, ok := s.upstream.acceptedTokens.Get(id); ok {
		return nil, tokenKey(id)
	}
	return nil, ""
}

// userKey returns the key of a known user.
func userKey(who user.Info) string { return "user " + who.GetName() }

// tokenKey returns the key of a caller of whom only the token is known.
func tokenKey(id [sha256.Size]byte) string { return tokenPrefix + string(id[:]) }

const tokenPrefix = "token "

const (
	scheduler         = "system:kube-scheduler"
	controllerManager = "system:kube-controller-manager"
	systemAccounts    = "system:serviceaccount:kube-system:"
)

// isSystem reports whether a user runs the cluster: administrators, nodes and the control plane.
func isSystem(who user.Info) bool {
	name := who.GetName()
	return name == scheduler || name == controllerManager || strings.HasPrefix(name, systemAccounts) ||
		slices.ContainsFunc(who.GetGroups(), func(g string) bool { return g == user.SystemPrivilegedGroup || g == user.NodesGroup })
}

// review notes that the token of a request may be under review from now on.
func (a *responseWriter) review(r *http.Request, f flow) {
	if f.level == levelNewTokens {
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
	r = s.authn.withIdentity(r)
	f := s.flowOf(r, info)
	if !f.level.bySource() {
		a.accepted = true
		conn.Of(r).Accept()
	}
	long, upgrade := isLongRunning(info), asksForUpgrade(r)
	if long || upgrade {
		p, err := s.acquireSlot(r, f)
		if err != nil {
			s.reject(a, r, err)
			return
		}
		a.slot = p
		a.head.Release() // the slot counts it, see watchBytes and extraHead
		r = r.WithContext(context.WithValue(r.Context(), slotKey{}, p))
	}
	a.onEnd(a.leave)
	if long {
		a.review(r, f)
		s.admitLongRunning(a, r, f)
		return
	}
	in := s.flowControl.seatsFor(info)
	if !in.acquire(r.Context(), f) {
		s.reject(a, r, errTooMany)
		return
	}
	a.seat = seat{in, f}
	a.review(r, f)
	s.serve(a, r, request.Strict(r))
}
