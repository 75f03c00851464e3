package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"
)

// authorization asks the upstream what callers may do. Safe for concurrent use.
type authorization struct {
	reviews authorizer.Authorizer
	outage  *outage
	timeout time.Duration
	fresh   time.Duration // how long an answer counts without a look at the library's
	grace   time.Duration
	allowed *lru.Cache // what was allowed last, for when nobody can be asked: a digest to remembered
}

// freshPart is the part of the time for which answers count that they count here. The libraries, in which to find one takes as long as
// to find what is asked for, have the rest: so no answer is older than it may be.
const freshPart = 10

func newAuthorization(o *Options, client kubernetes.Interface, out *outage) (*authorization, error) {
	reviews, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             o.Authentication.AllowTTL - o.Authentication.AllowTTL/freshPart,
		DenyCacheTTL:              o.Authentication.DenyTTL,
		WebhookRetryBackoff:       reviewBackoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &authorization{
		reviews: reviews, outage: out, timeout: o.patience.review, fresh: o.Authentication.AllowTTL / freshPart, grace: o.Grace,
		allowed: lru.New(maxKnown),
	}, nil
}

// allows says whether the caller may make the request. unsure: nobody could be asked, and the answer is the last one.
//
// Who may read everything may read a part of it. So that is asked first, and once, however many selectors the caller comes with; the
// selectors only matter to those who may not.
func (a *authorization) allows(ctx context.Context, who user.Info, q *action) (ok, unsure bool) {
	if q.selects() {
		whole := q.whole()
		// While nobody can be asked, what is known of the part counts, and is not waited for a second time.
		if !a.outage.on() || a.knew(whole.digest(who), a.grace) {
			switch ok, unsure = a.allowsThis(ctx, who, whole); {
			case ok:
				return true, unsure
			case unsure:
				return a.knew(q.digest(who), a.grace), true
			}
		}
	}
	return a.allowsThis(ctx, who, q)
}

// allowsThis is allows for exactly the action.
func (a *authorization) allowsThis(ctx context.Context, who user.Info, q *action) (ok, unsure bool) {
	id := q.digest(who)
	if a.knew(id, a.fresh) {
		return true, false
	}
	known := a.knew(id, a.grace)
	if known && a.outage.on() {
		return true, true
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	decision, _, err := a.reviews.Authorize(ctx, q.attributes(who))
	switch {
	case err == nil && decision == authorizer.DecisionAllow:
		a.allowed.Add(id, remembered{at: time.Now()})
		return true, false
	case err == nil || !unavailable(err):
		a.allowed.Remove(id)
		return false, false
	}
	return known, true
}

// knew says whether a question was last answered by yes, and not longer ago than that.
func (a *authorization) knew(id [sha256.Size]byte, within time.Duration) bool {
	last, ok := a.allowed.Get(id)
	return ok && time.Since(last.(remembered).at) < within
}

// unreachable says whether an error is of the network, or of a question that was not waited for.
func unreachable(err error) bool {
	_, ofURL := errors.AsType[*url.Error](err)
	_, ofNet := errors.AsType[net.Error](err)
	return ofURL || ofNet || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// errUnauthorized is what kube-apiserver answers.
func errUnauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

// errForbidden is what kube-apiserver answers.
func errForbidden(attrs *authorizer.AttributesRecord) error {
	if !attrs.ResourceRequest {
		why := fmt.Sprintf("User %q cannot %s path %q", attrs.User.GetName(), attrs.Verb, attrs.Path)
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(why))
	}
	resource := attrs.Resource
	if attrs.Subresource != "" {
		resource += "/" + attrs.Subresource
	}
	where := "at the cluster scope"
	if attrs.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", attrs.Namespace)
	}
	why := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", attrs.User.GetName(), attrs.Verb, resource, attrs.APIGroup, where)
	return apierrors.NewForbidden(schema.GroupResource{Group: attrs.APIGroup, Resource: resource}, attrs.Name, errors.New(why))
}
