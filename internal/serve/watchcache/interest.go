package watchcache

import (
	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/core/store"
)

// interest says which changes can concern a watcher: those of an object that has, or had, one of
// the values.
type interest struct {
	by        attribute
	name      string // of the field or the label
	values    []string
	namespace string          // also required; empty: any
	shard     *shard.Selector // for byShard; its text is the value
}

// attribute is the part of an object that an interest looks at.
type attribute uint8

const (
	byNothing attribute = iota // no change concerns the watcher
	byKey
	byName
	byNamespace
	byField
	byLabel
	byShard
)

// maxValues bounds the values of one label that an interest or an index lookup may have.
const maxValues = 64

// interest returns the most selective requirement that can be looked up. ok is false if there is
// none.
func (s *selector) interest(c *Cache) (interest, bool) {
	r := interest{namespace: s.namespace}
	one := func(by attribute, value string) (interest, bool) {
		r.by, r.values = by, []string{value}
		return r, true
	}
	switch {
	case s.never:
		return interest{}, true
	case s.name != "" && s.namespace != "":
		return one(byKey, s.namespace+"/"+s.name)
	case s.name != "" && !c.resource.Namespaced:
		return one(byKey, s.name)
	case s.name != "":
		return one(byName, s.name)
	}
	for _, t := range s.fields {
		if r.name = t.field.Label; !t.not && c.fields[r.name] == t.field {
			return one(byField, t.value)
		}
	}
	for i := range s.labels {
		if values, ok := s.labels[i].exactValues(); ok {
			r.by, r.name, r.values = byLabel, s.labels[i].key, values
			return r, true
		}
	}
	if s.shard != nil {
		r.shard = s.shard
		return one(byShard, s.shard.String())
	}
	if s.namespace != "" {
		return one(byNamespace, s.namespace)
	}
	return interest{}, false
}

// interestIndex finds subscriptions by the values of their interests. The hub's lock guards it.
type interestIndex struct {
	keys, names, namespaces bucket
	shards                  bucket // by the selector's text; each is evaluated, since there are few
	fields, labels          map[string]bucket
	// seq is the number of the change, so that each subscription is offered it once.
	seq uint64
}

// bucket maps values to subscriptions.
type bucket map[string][]*subscription

// of returns the bucket of an interest, and creates it if needed. It returns nil for byNothing.
func (ix *interestIndex) of(r *interest) bucket {
	switch r.by {
	case byKey:
		return ensure(&ix.keys)
	case byName:
		return ensure(&ix.names)
	case byNamespace:
		return ensure(&ix.namespaces)
	case byField:
		return ensureFor(&ix.fields, r.name)
	case byLabel:
		return ensureFor(&ix.labels, r.name)
	case byShard:
		return ensure(&ix.shards)
	}
	return nil
}

func ensure(b *bucket) bucket {
	if *b == nil {
		*b = bucket{}
	}
	return *b
}

func ensureFor(m *map[string]bucket, name string) bucket {
	if *m == nil {
		*m = map[string]bucket{}
	}
	if (*m)[name] == nil {
		(*m)[name] = bucket{}
	}
	return (*m)[name]
}

func (ix *interestIndex) add(s *subscription) {
	if b := ix.of(&s.interest); b != nil {
		for _, v := range s.interest.values {
			b[v] = append(b[v], s)
		}
	}
}

func (ix *interestIndex) remove(s *subscription) {
	b := ix.of(&s.interest)
	for _, v := range s.interest.values {
		b.remove(v, s)
	}
	if len(b) == 0 {
		switch s.interest.by {
		case byField:
			delete(ix.fields, s.interest.name)
		case byLabel:
			delete(ix.labels, s.interest.name)
		}
	}
}

func (b bucket) remove(value string, s *subscription) {
	list := b[value]
	for i := range list {
		if list[i] == s {
			last := len(list) - 1
			list[i], list[last] = list[last], nil
			list = list[:last]
			break
		}
	}
	if b[value] = list; len(list) == 0 {
		delete(b, value)
	}
}

// offer offers a change to each subscription that it concerns: first to those that the new version
// concerns, then to those that only the old one does. It fails if an object cannot be read.
func (ix *interestIndex) offer(m *matcher, of *offering) error {
	ix.seq++
	leaves := false
	visit := func(list []*subscription) {
		for _, s := range list {
			if s.offeredSeq != ix.seq {
				s.offeredSeq = ix.seq
				s.offer(of, len(list), leaves)
			}
		}
	}
	for _, o := range []*store.Object{of.change.New, of.change.Old} {
		if o != nil {
			if err := ix.find(m, o, visit); err != nil {
				return err
			}
		}
		leaves = true
	}
	return nil
}

// find visits the subscriptions that an object concerns.
func (ix *interestIndex) find(m *matcher, o *store.Object, visit func([]*subscription)) error {
	visit(ix.keys[o.Key()])
	visit(ix.names[o.Name()])
	visit(ix.namespaces[o.Namespace()])
	ix.findByShard(o, visit)
	return ix.findByContent(m, o, visit)
}

// findByContent visits the subscriptions by fields and labels, which need the object's bytes.
func (ix *interestIndex) findByContent(m *matcher, o *store.Object, visit func([]*subscription)) error {
	if len(ix.fields) == 0 && len(ix.labels) == 0 {
		return nil
	}
	raw, err := m.bytes(o)
	if err != nil {
		return err
	}
	for name, b := range ix.fields {
		var value string
		if value, m.values, err = m.cache.fields[name].value(raw, m.values); err != nil {
			return err
		}
		visit(b[value])
	}
	if len(ix.labels) == 0 {
		return nil
	}
	if err := m.readMeta(raw); err != nil {
		return err
	}
	for key, value := range m.meta.Labels() {
		if b := ix.labels[string(key)]; b != nil {
			visit(b[string(value)])
		}
	}
	return nil
}

// findByShard visits the subscriptions whose shard contains the object.
func (ix *interestIndex) findByShard(o *store.Object, visit func([]*subscription)) {
	if len(ix.shards) == 0 {
		return
	}
	hashes := [...]uint64{shard.UID: uidHash(o), shard.Namespace: shard.Hash(o.Namespace())}
	for _, list := range ix.shards {
		if s := list[0].interest.shard; s.Has(hashes[s.Field()]) {
			visit(list)
		}
	}
}
