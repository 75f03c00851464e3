package proxy

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// action is what a caller wants to do: the attributes of a SubjectAccessReview. It is immutable.
type action struct {
	verb string
	path string
	// resource is empty if the action is about a path.
	group, version, resource, subresource, namespace, name string
	fields                                                 fields.Selector // nil: everything
	labels                                                 labels.Selector // nil: everything
	// fieldText and labelText are the unparsed selectors.
	fieldText, labelText string
}

// hasSelectors reports whether the action is limited by selectors.
func (q *action) hasSelectors() bool { return q.fieldText != "" || q.labelText != "" }

// withoutSelectors returns the action without its selectors, and without the name, which in an
// action with selectors comes from one of them.
func (q *action) withoutSelectors() *action {
	w := *q
	w.fields, w.labels, w.fieldText, w.labelText, w.name = nil, nil, "", "", ""
	return &w
}

// attributes returns the attributes of the review.
func (q *action) attributes(who user.Info) *authorizer.AttributesRecord {
	a := &authorizer.AttributesRecord{
		User: who, Verb: q.verb, Path: q.path, ResourceRequest: q.resource != "",
		APIGroup: q.group, APIVersion: q.version, Resource: q.resource, Subresource: q.subresource, Namespace: q.namespace, Name: q.name,
	}
	if q.fields != nil {
		a.FieldSelectorRequirements = q.fields.Requirements()
	}
	if q.labels != nil {
		a.LabelSelectorRequirements, _ = q.labels.Requirements()
	}
	return a
}

// digest identifies the action together with its caller. Different actions have different digests.
func (q *action) digest(who user.Info) [sha256.Size]byte {
	raw := make([]byte, 0, 512)
	texts := func(list ...string) { // the length before each text keeps different lists apart
		raw = binary.AppendUvarint(raw, uint64(len(list)))
		for _, text := range list {
			raw = append(binary.AppendUvarint(raw, uint64(len(text))), text...)
		}
	}
	texts(q.verb, q.path, q.group, q.version, q.resource, q.subresource, q.namespace, q.name, q.fieldText, q.labelText,
		who.GetName(), who.GetUID())
	texts(who.GetGroups()...)
	extra := who.GetExtra()
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		texts(key)
		texts(extra[key]...)
	}
	return sha256.Sum256(raw)
}
