package review

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// Authorizer asks the upstream what callers may do, and caches the answers. It is safe for
// concurrent use.
type Authorizer struct {
	reviews           authorizer.Authorizer // asks the upstream on each call
	breaker           *Breaker
	timeout           time.Duration
	allowTTL, denyTTL time.Duration // for how long an answer is used without asking again
	allowed           *answerCache  // the last positive answers, also for outages of the upstream
	denied            *answerCache  // the last negative answers
	seats             *seats.Pool
}

// NewAuthorizer returns an Authorizer.
func NewAuthorizer(o *Config) (*Authorizer, error) {
	config := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: o.Client.AuthorizationV1(), WebhookRetryBackoff: reviewBackoff()}
	reviews, err := config.New()
	if err != nil {
		return nil, err
	}
	allow, deny := o.Trust.AllowTTL, o.Trust.DenyTTL
	return &Authorizer{
		reviews: reviews, breaker: o.Breaker, timeout: o.Timeout, allowTTL: allow, denyTTL: deny,
		allowed: newAnswerCache(maxCachedPermissions, o.answerAge(allow)), denied: newAnswerCache(maxCachedDenials, deny), seats: o.Seats,
	}, nil
}

// uncachedText is too long for the library to cache a review with it. The library's own cache
// bounds the number of reviews but not their bytes: it stores up to 8,192 reviews as JSON,
// including expired reviews. Each may contain up to 60 KB of selectors of its caller.
var uncachedText = strings.Repeat("/", 10_001)

// Allows decides whether the caller may do the action.
//
// A caller that may read everything may read each part of it. Allows therefore asks first about the
// request without its selectors. One such review serves all selectors of the caller. Allows asks
// about the request with its selectors only if the first answer is no.
func (a *Authorizer) Allows(ctx context.Context, who user.Info, q *request.Request, opts Options) Decision {
	if hasSelectors(q) {
		whole := withoutSelectors(q)
		// In an outage, use a cached answer about the request with selectors, and do not wait twice.
		if !a.breaker.open() || a.allowedWithin(digestOf(whole, who), opts.Grace) {
			switch d := a.allowsExactly(ctx, who, whole, opts); {
			case d == Unreachable && a.allowedWithin(digestOf(q, who), opts.Grace):
				return Grace
			case d != Deny:
				return d
			}
		}
	}
	return a.allowsExactly(ctx, who, q, opts)
}

// allowsExactly decides whether the caller may do exactly this action, selectors included.
func (a *Authorizer) allowsExactly(ctx context.Context, who user.Info, q *request.Request, opts Options) Decision {
	id := digestOf(q, who)
	if d, ok := a.lastAnswer(id); ok && !opts.uncached {
		return d
	}
	allowedBefore := a.allowedWithin(id, opts.Grace)
	if allowedBefore && a.breaker.open() {
		return Grace
	}
	if !opts.uncached {
		f := seats.ReviewFlow(who)
		seated := a.seats.Acquire(ctx, f)
		if seated {
			defer a.seats.Release(f)
		}
		switch {
		case allowedBefore && a.breaker.open():
			return Grace
		case !seated:
			return Overloaded
		}
	}
	d := a.review(ctx, who, q)
	switch {
	case d == Allow:
		a.denied.remove(id)
		a.allowed.add(who, id, cachedAnswer{at: time.Now()})
	case d == Deny:
		a.allowed.remove(id)
		a.denied.add(who, id, cachedAnswer{at: time.Now()})
	case d == Unreachable && allowedBefore:
		return Grace
	}
	return d
}

// review asks the upstream. An error, such as an answer that cannot be decoded, is never a denial.
func (a *Authorizer) review(ctx context.Context, who user.Info, q *request.Request) Decision {
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	attrs := Attributes(q, who)
	if attrs.ResourceRequest {
		attrs.Path = uncachedText // the review of a resource has no path
	} else {
		attrs.Name = uncachedText // the review of a path has no name
	}
	begun := a.breaker.begin()
	switch decision, _, err := a.reviews.Authorize(limited, attrs); {
	case err != nil:
		return begun.classify(ctx, err)
	case decision == authorizer.DecisionAllow:
		return Allow
	}
	return Deny
}

// lastAnswer returns the last answer about an action, and whether the answer is recent enough to be
// used without a review. If it is not, the decision has no meaning.
func (a *Authorizer) lastAnswer(id [sha256.Size]byte) (Decision, bool) {
	if last, ok := a.denied.get(id); ok {
		return Deny, time.Since(last.at) < a.denyTTL
	}
	return Allow, a.allowedWithin(id, a.allowTTL)
}

// allowedWithin reports whether the last positive answer about the action is younger than the given
// time (within).
func (a *Authorizer) allowedWithin(id [sha256.Size]byte, within time.Duration) bool {
	last, ok := a.allowed.get(id)
	return ok && time.Since(last.at) < within
}

// wholePermissionAge is the maximum age of the permission to read everything. If the permission is
// older, a watch with selectors is rechecked by the permission for its selectors.
const wholePermissionAge = time.Minute

// PermissionOf returns an action (by) for which the caller has permission. This permission covers
// the read q: the action is q itself, or q without its selectors. In the second case part is q.
// Otherwise part is nil.
func (a *Authorizer) PermissionOf(who user.Info, q *request.Request) (by, part *request.Request) {
	if hasSelectors(q) {
		if whole := withoutSelectors(q); a.allowedWithin(digestOf(whole, who), wholePermissionAge) {
			return whole, q
		}
	}
	return q, nil
}

// Unauthorized returns kube-apiserver's 401.
func Unauthorized() error { return apierrors.NewUnauthorized("Unauthorized") }

// Forbidden returns kube-apiserver's 403.
func Forbidden(attrs authorizer.Attributes) error {
	return responsewriters.ForbiddenStatusError(attrs, "")
}

// Attributes returns the attributes of a request for a SubjectAccessReview and an audit record. who
// may be nil.
func Attributes(rq *request.Request, who user.Info) *authorizer.AttributesRecord {
	a := &authorizer.AttributesRecord{
		User: who, Verb: rq.Verb, Path: rq.URLPath, ResourceRequest: rq.OfResource,
		APIGroup: rq.Group, APIVersion: rq.Version, Resource: rq.Resource, Subresource: rq.Subresource,
		Namespace: rq.ReviewNamespace(), Name: rq.ReviewName(),
	}
	if rq.Fields != nil {
		a.FieldSelectorRequirements = rq.Fields.Requirements()
	}
	if rq.Labels != nil {
		a.LabelSelectorRequirements, _ = rq.Labels.Requirements()
	}
	return a
}

// hasSelectors reports whether the request has selectors, which are then part of its review.
func hasSelectors(rq *request.Request) bool { return rq.FieldText != "" || rq.LabelText != "" }

// withoutSelectors returns a LIST or WATCH without its selectors, and without the name that a field
// selector gives.
func withoutSelectors(rq *request.Request) *request.Request {
	w := *rq
	w.Fields, w.Labels, w.FieldText, w.LabelText, w.Selected = nil, nil, "", "", ""
	return &w
}

// digestOf returns a digest of the contents of a review: the request and its caller. Different
// reviews have different digests.
func digestOf(rq *request.Request, who user.Info) [sha256.Size]byte {
	raw := make([]byte, 0, 512)
	// because of the length before each text, different lists have different digests
	texts := func(list ...string) {
		raw = binary.AppendUvarint(raw, uint64(len(list)))
		for _, text := range list {
			raw = append(binary.AppendUvarint(raw, uint64(len(text))), text...)
		}
	}
	texts(rq.Verb, rq.URLPath, rq.Group, rq.Version, rq.Resource, rq.Subresource, rq.ReviewNamespace(), rq.ReviewName(),
		rq.FieldText, rq.LabelText, who.GetName(), who.GetUID())
	texts(who.GetGroups()...)
	extra := who.GetExtra()
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		texts(key)
		texts(extra[key]...)
	}
	return sha256.Sum256(raw)
}
