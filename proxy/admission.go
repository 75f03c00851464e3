package proxy

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weirproject/weir/internal/watchcache"
)

const (
	// maxQuery bounds the query of a request, in bytes. kube-apiserver bounds only the whole head, at 1 MiB, and takes a second for a selector
	// of that size.
	maxQuery = 64 << 10
	// maxReading bounds the WATCHes whose selectors are being read. That takes some milliseconds at most.
	maxReading = 64
	// retryAfterSeconds is when who was refused is to come again.
	retryAfterSeconds = 1
)

// admission bounds requests by what they are: reads and all others by seats that are waited for, and those that last by their number.
type admission struct {
	readOnly, mutating *seats
	longRunning        *lasting
	reading            *seats // for those that last, while their selectors are read
}

func newAdmission(o *Options) *admission {
	return &admission{
		readOnly:    newSeats(o.MaxRequests, o.patience.seat),
		mutating:    newSeats(o.MaxMutating, o.patience.seat),
		longRunning: newLasting(o),
		reading:     newSeats(maxReading, o.patience.seat),
	}
}

// seatsOf returns the seats that a request shares which does not last.
func (a *admission) seatsOf(info *request.RequestInfo) *seats {
	if slices.Contains([]string{"get", "list", "head"}, info.Verb) {
		return a.readOnly
	}
	return a.mutating
}

// longRunning says whether a request lasts as long as its client likes, as kube-apiserver sees it.
func longRunning(info *request.RequestInfo) bool {
	return info.Verb == "watch" || info.Verb == "proxy" ||
		info.IsResourceRequest && slices.Contains([]string{"attach", "exec", "proxy", "log", "portforward"}, info.Subresource)
}

// errTooMany tells a client to come again.
var errTooMany = apierrors.NewTooManyRequests("Too many requests, please try again later.", retryAfterSeconds)

// errQueryTooLong returns what a request gets whose query is above maxQuery.
func errQueryTooLong() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestURITooLong, Reason: metav1.StatusReasonRequestEntityTooLarge,
		Message: fmt.Sprintf("The query of the request is longer than %d bytes.", maxQuery),
	}}
}

// refuse answers a request that was not let in.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, why error) {
	if spare(r) {
		w.Header().Set("Connection", "close")
	}
	if s.dropBody(w, r) {
		watchcache.WriteError(w, r, why)
	}
	if a, ok := w.(*answer); ok {
		a.refused()
	}
}

// flowOf returns whose requests a request shares seats with. It asks nobody: a caller is known by a certificate, or by a token that a review
// or the upstream has let in before. Everybody else is one flow, so that made-up tokens bring nobody more than one share.
func (s *Server) flowOf(r *http.Request, info *request.RequestInfo) flow {
	who, key := s.knownCaller(r)
	f := flow{everybody, key}
	switch {
	case key == "":
	case info.APIGroup == "coordination.k8s.io" && info.Resource == "leases":
		f.class = leases
	case who != nil && runsCluster(who):
		f.class = system
	}
	return f
}

// knownCaller returns a name of the caller, which is empty if nobody knows who it is, and the caller, if there is more than a name.
func (s *Server) knownCaller(r *http.Request) (who user.Info, key string) {
	if c, _ := s.authn.certified(r); c != nil {
		return c.user, userKey(c.user)
	}
	id := tokenID(r)
	if last, ok := s.authn.known.Get(id); ok {
		who = last.(remembered).user
		return who, userKey(who)
	}
	if _, ok := s.upstream.accepted.Get(id); ok {
		return nil, tokenKey(id)
	}
	return nil, ""
}

// userKey returns the name of a caller among others.
func userKey(who user.Info) string { return "user " + who.GetName() }

// tokenKey returns the name of a caller of whom only the token is known.
func tokenKey(id [sha256.Size]byte) string { return "token " + string(id[:]) }

const (
	scheduler         = "system:kube-scheduler"
	controllerManager = "system:kube-controller-manager"
	systemAccounts    = "system:serviceaccount:kube-system:"
)

// runsCluster reports whether a caller is one of those that a cluster is run by: administrators, nodes, and the control plane.
func runsCluster(who user.Info) bool {
	name := who.GetName()
	return name == scheduler || name == controllerManager || strings.HasPrefix(name, systemAccounts) ||
		slices.ContainsFunc(who.GetGroups(), func(g string) bool { return g == user.SystemPrivilegedGroup || g == user.NodesGroup })
}

// admit answers a request if there is a place for it. Before it has one nothing of its query is read but whether it is a WATCH.
func (s *Server) admit(a *answer, r *http.Request) {
	if len(r.URL.RawQuery) > maxQuery {
		bare := *r.URL
		bare.RawQuery = ""
		a.count(s.metrics, r, infoOf(r.Method, &bare))
		defer a.end()
		s.refuse(a, r, errQueryTooLong())
		return
	}
	ask, known := s.urls.look(r)
	a.count(s.metrics, r, ask.info)
	defer a.end()
	if spare(r) {
		s.refuse(a, r, errTooMany)
		return
	}
	r = s.authn.identified(r)
	if longRunning(ask.info) {
		s.admitLasting(a, r, ask, known)
		return
	}
	f := s.flowOf(r, ask.info)
	in := s.admission.seatsOf(ask.info)
	if !in.enter(r.Context(), f) {
		s.refuse(a, r, errTooMany)
		return
	}
	defer in.leave(f)
	if !known {
		ask = s.urls.read(r, ask)
	}
	s.answer(a, r, ask.read)
}
