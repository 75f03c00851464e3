package watchcache

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// labelTerm is one requirement of a label selector, made ready to be looked at for many objects: how long the list of its values is does
// not matter.
type labelTerm struct {
	requirement labels.Requirement
	key         string
	operator    selection.Operator
	values      []string
	set         map[string]struct{} // of the values, if there are more than a few
}

const fewValues = 8

func newLabelTerm(r *labels.Requirement) labelTerm {
	t := labelTerm{requirement: *r, key: r.Key(), operator: r.Operator(), values: r.ValuesUnsorted()}
	if len(t.values) > fewValues {
		t.set = make(map[string]struct{}, len(t.values))
		for _, v := range t.values {
			t.set[v] = struct{}{}
		}
	}
	return t
}

// exact are the values of a requirement that the label has one of a few values.
func (t *labelTerm) exact() (values []string, ok bool) {
	switch t.operator {
	case selection.Equals, selection.DoubleEquals, selection.In:
		return t.values, len(t.values) > 0 && len(t.values) <= maxValues
	}
	return nil, false
}

// matches says whether an object with this value of the label, or without the label, fulfils the requirement.
func (t *labelTerm) matches(value []byte, ok bool) bool {
	switch t.operator {
	case selection.Exists:
		return ok
	case selection.DoesNotExist:
		return !ok
	case selection.Equals, selection.DoubleEquals, selection.In:
		return ok && t.has(value)
	case selection.NotEquals, selection.NotIn:
		return !ok || !t.has(value)
	}
	set := labels.Set{} // greater and less than
	if ok {
		set[t.key] = string(value)
	}
	return t.requirement.Matches(set)
}

func (t *labelTerm) has(value []byte) bool {
	if t.set != nil {
		_, ok := t.set[string(value)]
		return ok
	}
	for _, v := range t.values {
		if v == string(value) {
			return true
		}
	}
	return false
}
