package watchcache

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/weirproject/weir/internal/shard"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// selector is what a request wants to see of a resource. It is not changed once it is made, and safe for concurrent use.
type selector struct {
	namespace string // empty: all
	name      string // empty: all
	clustered bool   // objects have no namespace
	never     bool   // contradicts itself: matches nothing
	labels    []labelTerm
	terms     []term
	shard     *shard.Selector // nil: all
}

// term is one requirement of a field selector on a field inside the object.
type term struct {
	field *selectable
	value string
	not   bool
}

// newSelector combines the namespace and name of the path with the selectors of the query. An unknown field is 400.
func (c *Cache) newSelector(namespace, name string, p *params) (*selector, error) {
	s := &selector{namespace: namespace, name: name, clustered: !c.resource.Namespaced, shard: p.shard}
	if p.labels != nil {
		requirements, selectable := p.labels.Requirements()
		s.never = !selectable
		for i := range requirements {
			s.labels = append(s.labels, newLabelTerm(&requirements[i]))
		}
	}
	f := p.fields
	if f == nil {
		f = fields.Everything()
	}
	for _, r := range f.Requirements() {
		if err := s.addField(c, r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *selector) addField(c *Cache, r fields.Requirement) error {
	not := r.Operator == selection.NotEquals
	switch {
	case r.Field == "metadata.name":
		s.restrict(&s.name, r.Value, not, metadataName)
	case r.Field == "metadata.namespace" && c.resource.Namespaced:
		s.restrict(&s.namespace, r.Value, not, metadataNamespace)
	case r.Field == "metadata.namespace":
		s.terms = append(s.terms, term{field: metadataNamespace, value: r.Value, not: not})
	case c.fields[r.Field] != nil:
		s.terms = append(s.terms, term{field: c.fields[r.Field], value: r.Value, not: not})
	default:
		return errFieldUnsupported(r.Field)
	}
	return nil
}

func errFieldUnsupported(label string) error {
	return apierrors.NewBadRequest("field label not supported: " + label)
}

// Pseudo fields: they are read from the key, not from the bytes.
var (
	metadataName      = &selectable{Field: Field{Label: "metadata.name"}}
	metadataNamespace = &selectable{Field: Field{Label: "metadata.namespace"}}
)

func (s *selector) restrict(to *string, value string, not bool, f *selectable) {
	switch {
	case not:
		s.terms = append(s.terms, term{field: f, value: value, not: true})
	case value == "" || *to != "" && *to != value:
		s.never = true // no object has an empty name
	default:
		*to = value
	}
}

// keyOnly says whether only the namespace and name of the key decide.
func (s *selector) keyOnly() bool {
	return !s.looksInside() && s.shard == nil
}

// looksInside says whether the objects' bytes are needed to decide.
func (s *selector) looksInside() bool {
	return len(s.labels) > 0 || len(s.terms) > 0
}

// unsharded is the selector without the shard.
func (s *selector) unsharded() *selector {
	if s.shard == nil {
		return s
	}
	rest := *s
	rest.shard = nil
	return &rest
}

// all says whether every object of the resource matches.
func (s *selector) all() bool {
	return s.keyOnly() && s.namespace == "" && s.name == "" && !s.never
}

// matcher evaluates a selector, and holds the bytes of the object it looked at last. One goroutine uses it.
type matcher struct {
	*selector
	cache  *Cache
	share  bool // others look at the same objects
	object *store.Object
	raw    []byte // of object
	own    []byte // scratch
	meta   wire.Meta
	values [][]byte
}

// bytes returns the object's bytes, which nobody may change, valid until the next call for another object.
func (m *matcher) bytes(o *store.Object) ([]byte, error) {
	if m.object == o {
		return m.raw, nil
	}
	var err error
	if m.share {
		m.raw, err = m.cache.shared.get(sharedKey{object: o}, func() ([]byte, error) { return o.AppendRaw(nil) })
	} else {
		m.own, err = o.AppendRaw(m.own[:0])
		m.raw = m.own
	}
	if m.object = o; err != nil {
		m.object, m.raw = nil, nil
	}
	return m.raw, err
}

// forget lets go of everything.
func (m *matcher) forget() {
	m.object, m.raw, m.own, m.values, m.meta = nil, nil, nil, nil, wire.Meta{}
}

func (m *matcher) readMeta(raw []byte) error { return wire.ReadMeta(m.cache.encoding, raw, &m.meta) }

// match says whether o is selected.
func (m *matcher) match(o *store.Object) (bool, error) {
	if m.never || m.namespace != "" && o.Namespace() != m.namespace || m.name != "" && o.Name() != m.name {
		return false, nil
	}
	if m.shard != nil && !inShard(m.shard, o) {
		return false, nil
	}
	if !m.looksInside() {
		return true, nil
	}
	raw, err := m.bytes(o)
	if err != nil {
		return false, err
	}
	if len(m.labels) > 0 {
		if err := m.readMeta(raw); err != nil {
			return false, err
		}
		for i := range m.labels {
			if value, ok := m.meta.Label(m.labels[i].key); !m.labels[i].matches(value, ok) {
				return false, nil
			}
		}
	}
	for _, t := range m.terms {
		ok, err := m.matchTerm(t, o, raw)
		if !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (m *matcher) matchTerm(t term, o *store.Object, raw []byte) (bool, error) {
	var value string
	switch t.field {
	case metadataName:
		value = o.Name()
	case metadataNamespace:
		value = o.Namespace()
	default:
		var err error
		if value, m.values, err = t.field.value(raw, m.values); err != nil {
			return false, err
		}
	}
	return (value == t.value) != t.not, nil
}
