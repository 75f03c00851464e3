package watchcache

import (
	"github.com/weirproject/weir/internal/shard"
	"github.com/weirproject/weir/internal/store"
)

// route says which changes can concern a watcher: those of an object that has, or had, one of the
// values.
type route struct {
	by        attribute
	name      string // of the field or the label
	values    []string
	namespace string          // also required; empty: any
	shard     *shard.Selector // for byShard; its text is the value
}

// attribute is the part of an object that a route looks at.
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

// maxValues bounds the values of one label that a route or an index lookup may have.
const maxValues = 64

// route returns the most selective requirement that can be looked up. ok is false if there is none.
func (s *selector) route(c *Cache) (route, bool) {
	r := route{namespace: s.namespace}
	one := func(by attribute, value string) (route, bool) {
		r.by, r.values = by, []string{value}
		return r, true
	}
	switch {
	case s.never:
		return route{}, true
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
	return route{}, false
}

// routes finds subscriptions by the values of their routes. The hub's lock guards it.
type routes struct {
	keys, names, namespaces bucket
	shards                  bucket // by the selector's text; each is evaluated, since there are few
	fields, labels          map[string]bucket
	seq                     uint64 // number of the change, so that each subscription is offered it once
}

// bucket maps values to subscriptions.
type bucket map[string][]*subscription

// of returns the bucket of a route, and creates it if needed. It returns nil for byNothing.
func (rs *routes) of(r *route) bucket {
	switch r.by {
	case byKey:
		return ensure(&rs.keys)
	case byName:
		return ensure(&rs.names)
	case byNamespace:
		return ensure(&rs.namespaces)
	case byField:
		return ensureFor(&rs.fields, r.name)
	case byLabel:
		return ensureFor(&rs.labels, r.name)
	case byShard:
		return ensure(&rs.shards)
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

func (rs *routes) add(s *subscription) {
	if b := rs.of(&s.route); b != nil {
		for _, v := range s.route.values {
			b[v] = append(b[v], s)
		}
	}
}

func (rs *routes) remove(s *subscription) {
	b := rs.of(&s.route)
	for _, v := range s.route.values {
		b.remove(v, s)
	}
	if len(b) == 0 {
		switch s.route.by {
		case byField:
			delete(rs.fields, s.route.name)
		case byLabel:
			delete(rs.labels, s.route.name)
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

// offer offers a change to each subscription that it concerns. It fails if an object cannot be
// read.
func (rs *routes) offer(m *matcher, ch *store.Change) error {
	rs.seq++
	visit := func(list []*subscription) {
		for _, s := range list {
			if s.offeredSeq != rs.seq {
				s.offeredSeq = rs.seq
				s.offer(ch, len(list))
			}
		}
	}
	for _, o := range []*store.Object{ch.Old, ch.New} {
		if o == nil {
			continue
		}
		visit(rs.keys[o.Key()])
		visit(rs.names[o.Name()])
		visit(rs.namespaces[o.Namespace()])
		rs.findByShard(o, visit)
		if err := rs.findByContent(m, o, visit); err != nil {
			return err
		}
	}
	return nil
}

// findByContent visits the subscriptions by fields and labels, which need the object's bytes.
func (rs *routes) findByContent(m *matcher, o *store.Object, visit func([]*subscription)) error {
	if len(rs.fields) == 0 && len(rs.labels) == 0 {
		return nil
	}
	raw, err := m.bytes(o)
	if err != nil {
		return err
	}
	for name, b := range rs.fields {
		var value string
		if value, m.values, err = m.cache.fields[name].value(raw, m.values); err != nil {
			return err
		}
		visit(b[value])
	}
	if len(rs.labels) == 0 {
		return nil
	}
	if err := m.readMeta(raw); err != nil {
		return err
	}
	for key, value := range m.meta.Labels() {
		if b := rs.labels[string(key)]; b != nil {
			visit(b[string(value)])
		}
	}
	return nil
}

// findByShard visits the subscriptions whose shard contains the object.
func (rs *routes) findByShard(o *store.Object, visit func([]*subscription)) {
	if len(rs.shards) == 0 {
		return
	}
	hashes := [...]uint64{shard.UID: uidHash(o), shard.Namespace: shard.Hash(o.Namespace())}
	for _, list := range rs.shards {
		if s := list[0].route.shard; s.Has(hashes[s.Field()]) {
			visit(list)
		}
	}
}
