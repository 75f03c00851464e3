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
)

// authorization asks the upstream what callers may do. It is safe for concurrent use.
type authorization struct {
	cached    authorizer.Authorizer
	uncached  authorizer.Authorizer // cached without the library's cache
	breaker   *breaker
	timeout   time.Duration
	localTTL  time.Duration // how long an answer counts without asking the library's cache
	allowedAt *answerCache  // about actions that were allowed last; for outages of the upstream
	seats     *seatPool     // of reviews of known callers
}

// localTTLPart is the part (one in 10) of a TTL for which an answer is kept here. The library's
// cache, where a lookup costs as much as serving the request, keeps it for the rest. So no answer
// is older than its TTL.
const localTTLPart = 10

func newAuthorization(o *Options, client kubernetes.Interface, br *breaker, seats *seatPool) (*authorization, error) {
	config := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: client.AuthorizationV1(), WebhookRetryBackoff: reviewBackoff()}
	anew, err := config.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	config.AllowCacheTTL, config.DenyCacheTTL = o.Authentication.AllowTTL-o.Authentication.AllowTTL/localTTLPart, o.Authentication.DenyTTL
	reviews, err := config.New()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return &authorization{
		cached: reviews, uncached: anew, breaker: br, timeout: o.timeouts.review, localTTL: o.Authentication.AllowTTL / localTTLPart,
		allowedAt: newAnswerCache(maxCachedPermissions, o.answerAge(o.Authentication.AllowTTL)), seats: seats,
	}, nil
}

// allows decides whether the caller may do the action.
//
// A caller who may read everything may read a part of it. So that is asked first, once for all
// selectors of a caller. The selectors are reviewed only for callers who may not.
func (a *authorization) allows(ctx context.Context, who user.Info, q *action, opts reviewOptions) decision {
	if q.hasSelectors() {
		whole := q.withoutSelectors()
		// In an outage, use a cached answer about the part rather than wait twice.
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

// allowsExactly decides about exactly this action.
func (a *authorization) allowsExactly(ctx context.Context, who user.Info, q *action, opts reviewOptions) decision {
	id := q.digest(who)
	if !opts.uncached && a.allowedWithin(id, a.localTTL) {
		return decisionAllow
	}
	allowedBefore := a.allowedWithin(id, opts.grace)
	if allowedBefore && a.breaker.open() {
		return decisionGrace
	}
	if !opts.uncached {
		f := reviewFlow(who)
		seated := a.seats.acquire(ctx, f)
		if seated {
			defer a.seats.release(f)
		}
		switch {
		case allowedBefore && a.breaker.open():
			return decisionGrace
		case !seated:
			return decisionOverloaded
		}
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
		a.allowedAt.add(who, id, cachedAnswer{at: time.Now()})
	case d == decisionDeny:
		a.allowedAt.remove(id)
	case d == decisionUnreachable && allowedBefore:
		return decisionGrace
	}
	return d
}

// allowedWithin reports whether the action was allowed by the last answer, and that is not older
// than within.
func (a *authorization) allowedWithin(id [sha256.Size]byte, within time.Duration) bool {
	last, ok := a.allowedAt.get(id)
	return ok && time.Since(last.at) < within
}

// errUnauthorized returns kube-apiserver's 401.
func errUnauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

// errForbidden returns kube-apiserver's 403.
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
