package review

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weirproject/weir/internal/core/request"
)

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
