package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	anew    authorizer.Authorizer // the same, without earlier answers
	outage  *outage
	timeout time.Duration
	fresh   time.Duration // how long an answer counts without a look at the library's
	allowed *lru.Cache    // what was allowed last, for when the upstream cannot be reached: a digest to remembered
}

// freshPart is the part of the time for which answers count that they count here. The libraries, in which to find one takes as long as
// to find what is asked for, have the rest: so no answer is older than it may be.
const freshPart = 10

func newAuthorization(o *Options, client kubernetes.Interface, out *outage) (*authorization, error) {
	of := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: client.AuthorizationV1(), WebhookRetryBackoff: reviewBackoff()}
	anew, err := of.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	of.AllowCacheTTL, of.DenyCacheTTL = o.Authentication.AllowTTL-o.Authentication.AllowTTL/freshPart, o.Authentication.DenyTTL
	reviews, err := of.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &authorization{
		reviews: reviews, anew: anew, outage: out, timeout: o.patience.review, fresh: o.Authentication.AllowTTL / freshPart,
		allowed: lru.New(maxKnown),
	}, nil
}

// allows returns whether the caller may make the request.
//
// Who may read everything may read a part of it. So that is asked first, and once, however many selectors the caller comes with; the
// selectors only matter to those who may not.
func (a *authorization) allows(ctx context.Context, who user.Info, q *action, t terms) verdict {
	if q.selects() {
		whole := q.whole()
		// While the upstream cannot be reached, what is known of the part counts, and is not waited for a second time.
		if !a.outage.on() || a.knew(whole.digest(who), t.grace) {
			switch v := a.allowsThis(ctx, who, whole, t); {
			case v == unreached && a.knew(q.digest(who), t.grace):
				return graced
			case v != no:
				return v
			}
		}
	}
	return a.allowsThis(ctx, who, q, t)
}

// allowsThis is allows for exactly the action.
func (a *authorization) allowsThis(ctx context.Context, who user.Info, q *action, t terms) verdict {
	id := q.digest(who)
	if !t.anew && a.knew(id, a.fresh) {
		return yes
	}
	known := a.knew(id, t.grace)
	if known && a.outage.on() {
		return graced
	}
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	reviews := a.reviews
	if t.anew {
		reviews = a.anew
	}
	begun := a.outage.begin()
	decision, _, err := reviews.Authorize(limited, q.attributes(who))
	v := no
	switch {
	case err != nil:
		v = begun.failed(ctx, err)
	case decision == authorizer.DecisionAllow:
		v = yes
	}
	switch {
	case v == yes:
		a.allowed.Add(id, remembered{at: time.Now()})
	case v == no:
		a.allowed.Remove(id)
	case v == unreached && known:
		return graced
	}
	return v
}

// knew says whether a question was last answered by yes, and not longer ago than that.
func (a *authorization) knew(id [sha256.Size]byte, within time.Duration) bool {
	last, ok := a.allowed.Get(id)
	return ok && time.Since(last.(remembered).at) < within
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
