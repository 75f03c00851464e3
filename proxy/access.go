package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/request"
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

// attributes are what a review is about: exactly what the request asks for. An error: the selectors cannot be read.
func attributes(who user.Info, info *request.RequestInfo) (*authorizer.AttributesRecord, error) {
	a := &authorizer.AttributesRecord{
		User: who, Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResourceRequest,
		APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	}
	if info.FieldSelector != "" {
		s, err := fields.ParseSelector(info.FieldSelector)
		if err != nil {
			return nil, err
		}
		a.FieldSelectorRequirements = s.Requirements()
	}
	if info.LabelSelector != "" {
		s, err := labels.Parse(info.LabelSelector)
		if err != nil {
			return nil, err
		}
		a.LabelSelectorRequirements, _ = s.Requirements()
	}
	return a, nil
}

// digest names a question.
func digest(who user.Info, info *request.RequestInfo) [sha256.Size]byte {
	raw := make([]byte, 0, 512)
	texts := func(list ...string) { // each with its length in front, so that no two questions look alike
		raw = binary.AppendUvarint(raw, uint64(len(list)))
		for _, text := range list {
			raw = append(binary.AppendUvarint(raw, uint64(len(text))), text...)
		}
	}
	texts(info.Verb, info.Path, info.APIGroup, info.APIVersion, info.Resource, info.Subresource, info.Namespace, info.Name,
		info.FieldSelector, info.LabelSelector, who.GetName(), who.GetUID())
	texts(who.GetGroups()...)
	extra := who.GetExtra()
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		texts(key)
		texts(extra[key]...)
	}
	return sha256.Sum256(raw)
}

// allows says whether the caller may make the request. unsure: nobody could be asked, and the answer is the last one.
//
// Who may read everything may read a part of it. So that is asked first, and once, however many selectors the caller comes with; the
// selectors only matter to those who may not.
func (a *authorization) allows(ctx context.Context, who user.Info, info *request.RequestInfo) (ok, unsure bool) {
	if info.LabelSelector != "" || info.FieldSelector != "" {
		whole := *info
		whole.LabelSelector, whole.FieldSelector, whole.Name = "", "", "" // the name is the field selector's
		// While nobody can be asked, what is known of the part counts, and is not waited for a second time.
		if !a.outage.on() || a.knew(digest(who, &whole), a.grace) {
			switch ok, unsure = a.allowsThis(ctx, who, &whole); {
			case ok:
				return true, unsure
			case unsure:
				return a.knew(digest(who, info), a.grace), true
			}
		}
	}
	return a.allowsThis(ctx, who, info)
}

// allowsThis is allows for exactly the request.
func (a *authorization) allowsThis(ctx context.Context, who user.Info, info *request.RequestInfo) (ok, unsure bool) {
	id := digest(who, info)
	if a.knew(id, a.fresh) {
		return true, false
	}
	known := a.knew(id, a.grace)
	if known && a.outage.on() {
		return true, true
	}
	attrs, err := attributes(who, info)
	if err != nil {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	decision, _, err := a.reviews.Authorize(ctx, attrs)
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
