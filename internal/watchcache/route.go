package watchcache

import (
	"github.com/weirproject/weir/internal/shard"
	"github.com/weirproject/weir/internal/store"
)

// route says which changes can concern a watcher at all: those of an object that had one of the values, or has it now.
type route struct {
	by        attribute
	name      string // of the field or the label
	values    []string
	namespace string          // the object must be in it too; empty: any
	shard     *shard.Selector // by byShard; its text is the value
}

// attribute is what of an object a route looks at.
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

// maxValues is how many values of one label a watcher can be routed by, or a LIST be answered by from an index.
const maxValues = 64

// route picks the requirement that lets the fewest changes through. false: there is none that can be looked up.
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
	for _, t := range s.terms {
		if r.name = t.field.Label; !t.not && c.fields[r.name] == t.field {
			return one(byField, t.value)
		}
	}
	for i := range s.labels {
		if values, ok := s.labels[i].exact(); ok {
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

// routes finds subscriptions by what they are routed by. Guarded by its hub.
type routes struct {
	keys, names, namespaces bucket
	shards                  bucket // by the selector's text: there are few, and each is asked
	fields, labels          map[string]bucket
	at                      uint64 // counts the changes, so that a subscription is found once for each
}

// bucket is the subscriptions of each value.
type bucket map[string][]*subscription

// of returns the bucket that a route's values are in; it makes one if there is none. nil for byNothing.
func (rs *routes) of(r *route) bucket {
	switch r.by {
	case byKey:
		return made(&rs.keys)
	case byName:
		return made(&rs.names)
	case byNamespace:
		return made(&rs.namespaces)
	case byField:
		return madeFor(&rs.fields, r.name)
	case byLabel:
		return madeFor(&rs.labels, r.name)
	case byShard:
		return made(&rs.shards)
	}
	return nil
}

func made(b *bucket) bucket {
	if *b == nil {
		*b = bucket{}
	}
	return *b
}

func madeFor(m *map[string]bucket, name string) bucket {
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

// offer hands a change to each subscription that it concerns. An object that cannot be read is an error.
func (rs *routes) offer(m *matcher, ch *store.Change) error {
	rs.at++
	visit := func(list []*subscription) {
		for _, s := range list {
			if s.offeredAt != rs.at {
				s.offeredAt = rs.at
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
		rs.findShards(o, visit)
		if err := rs.findInside(m, o, visit); err != nil {
			return err
		}
	}
	return nil
}

// findInside looks at what needs the object's bytes.
func (rs *routes) findInside(m *matcher, o *store.Object, visit func([]*subscription)) error {
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
