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
	cached    authorizer.Authorizer
	uncached  authorizer.Authorizer // the same, without earlier answers
	breaker   *breaker
	timeout   time.Duration
	localTTL  time.Duration // how long an answer counts without a look at the library's
	allowedAt *lru.Cache    // what was allowed last, for when the upstream cannot be reached: a digest to remembered
}

// localTTLPart is the part of the time for which answers count that they count here. The libraries,
// in which to find one takes as long as to find what is asked for, have the rest: so no answer is
// older than it may be.
const localTTLPart = 10

func newAuthorization(o *Options, client kubernetes.Interface, br *breaker) (*authorization, error) {
	of := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: client.AuthorizationV1(), WebhookRetryBackoff: reviewBackoff()}
	anew, err := of.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	of.AllowCacheTTL, of.DenyCacheTTL = o.Authentication.AllowTTL-o.Authentication.AllowTTL/localTTLPart, o.Authentication.DenyTTL
	reviews, err := of.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &authorization{
		cached: reviews, uncached: anew, breaker: br, timeout: o.timeouts.review, localTTL: o.Authentication.AllowTTL / localTTLPart,
		allowedAt: lru.New(maxCachedAnswers),
	}, nil
}

// allows returns whether the caller may make the request.
//
// Who may read everything may read a part of it. So that is asked first, and once, however many
// selectors the caller comes with; the selectors only matter to those who may not.
func (a *authorization) allows(ctx context.Context, who user.Info, q *action, opts reviewOptions) decision {
	if q.hasSelectors() {
		whole := q.withoutSelectors()
		// While the upstream cannot be reached, what is known of the part counts, and is not waited
		// for a second time.
		if !a.breaker.open() || a.allowedWithin(whole.digest(who), opts.grace) {
			switch d := a.allowsExactly(ctx, who, whole, opts); {
			case d == decisionUnreachable && a.allowedWithin(q.digest(who), opts.grace):
				return decisionGrace
			case d != decisionDeny:
				return d
			}
		}
	}
	return a.allowsExactly(ctx, who, q, opts)
}

// allowsExactly is allows for exactly the action.
func (a *authorization) allowsExactly(ctx context.Context, who user.Info, q *action, opts reviewOptions) decision {
	id := q.digest(who)
	if !opts.uncached && a.allowedWithin(id, a.localTTL) {
		return decisionAllow
	}
	known := a.allowedWithin(id, opts.grace)
	if known && a.breaker.open() {
		return decisionGrace
	}
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	reviews := a.cached
	if opts.uncached {
		reviews = a.uncached
	}
	begun := a.breaker.begin()
	decision, _, err := reviews.Authorize(limited, q.attributes(who))
	d := decisionDeny
	switch {
	case err != nil:
		d = begun.classify(ctx, err)
	case decision == authorizer.DecisionAllow:
		d = decisionAllow
	}
	switch {
	case d == decisionAllow:
		a.allowedAt.Add(id, cachedAnswer{at: time.Now()})
	case d == decisionDeny:
		a.allowedAt.Remove(id)
	case d == decisionUnreachable && known:
		return decisionGrace
	}
	return d
}

// allowedWithin reports whether a question was last answered by yes, and not longer ago than that.
func (a *authorization) allowedWithin(id [sha256.Size]byte, within time.Duration) bool {
	last, ok := a.allowedAt.Get(id)
	return ok && time.Since(last.(cachedAnswer).at) < within
}

// errUnauthorized returns what kube-apiserver answers.
func errUnauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

// errForbidden returns what kube-apiserver answers.
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
