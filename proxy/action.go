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

// action is what a caller wants to do, and what a review asks about. It is immutable.
type action struct {
	verb string
	path string
	// resource is empty where the action is about a path only.
	group, version, resource, subresource, namespace, name string
	fields                                                 fields.Selector // nil: everything
	labels                                                 labels.Selector // nil: everything
	// fieldText and labelText are what the selectors were read from.
	fieldText, labelText string
}

// hasSelectors reports whether the action is on a part of what its path names.
func (q *action) hasSelectors() bool { return q.fieldText != "" || q.labelText != "" }

// withoutSelectors returns the action without its selectors, and without the name, which in an
// action with selectors is one of theirs.
func (q *action) withoutSelectors() *action {
	w := *q
	w.fields, w.labels, w.fieldText, w.labelText, w.name = nil, nil, "", "", ""
	return &w
}

// attributes returns what a review is asked about.
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

// digest names the question whether a caller may do it.
func (q *action) digest(who user.Info) [sha256.Size]byte {
	raw := make([]byte, 0, 512)
	texts := func(list ...string) { // each with its length in front, so that no two questions look alike
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
