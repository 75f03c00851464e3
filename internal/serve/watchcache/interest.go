package watchcache

import (
	"slices"

	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/core/store"
)

// interest says which changes a watcher needs: the changes of an object that has one of the values,
// or had it before the change.
type interest struct {
	values    []interestValue
	namespace string          // also required; empty: any
	shard     *shard.Selector // for byShard; its text is the value
}

// attribute is the part of an object that an interest compares.
type attribute uint8

const (
	byKey attribute = iota
	byName
	byNamespace
	byField
	byLabel
	byShard
)

// maxValues bounds the values of one label that an interest or an index lookup may have.
const maxValues = 64

// interest returns the most selective requirement of s that the hub can look up. ok is false if s
// has no such requirement.
func (s *selector) interest(c *Cache) (interest, bool) {
	one := func(by attribute, name, value string) (interest, bool) {
		return interest{[]interestValue{{by, name, value}}, s.namespace, s.shard}, true
	}
	switch {
	case s.never:
		return interest{}, true
	case s.name != "" && s.namespace != "":
		return one(byKey, "", s.namespace+"/"+s.name)
	case s.name != "" && !c.resource.Namespaced:
		return one(byKey, "", s.name)
	case s.name != "":
		return one(byName, "", s.name)
	}
	for _, t := range s.fields {
		if name := t.field.Label; !t.not && c.fields[name] == t.field {
			return one(byField, name, t.value)
		}
	}
	for i := range s.labels {
		if values, ok := exactValues(&s.labels[i]); ok {
			r := interest{namespace: s.namespace}
			for _, value := range values {
				r.values = append(r.values, interestValue{byLabel, s.labels[i].Key(), value})
			}
			return r, true
		}
	}
	if s.shard != nil {
		return one(byShard, "", s.shard.String())
	}
	if s.namespace != "" {
		return one(byNamespace, "", s.namespace)
	}
	return interest{}, false
}

// interestIndex finds subscriptions by the values of their interests. The hub's lock guards it.
type interestIndex struct {
	// subscriptions contains each subscription once for each value of its interest.
	subscriptions map[interestValue][]*subscription
	// The keys of scanned are all shards, and all fields (without a value), that interests require.
	// scanned[key] counts the entries of this shard or field in subscriptions. find compares each
	// changed object with all keys of scanned, because there are few.
	scanned map[interestValue]int
	// labels is the number of entries in subscriptions whose attribute is byLabel.
	labels int
	// seq is the number of the current change. It ensures that each subscription receives a change
	// once.
	seq uint64
}

// interestValue is one value of an interest.
type interestValue struct {
	by          attribute
	name, value string // name is the name of a field or a label
}

func (ix *interestIndex) add(s *subscription) {
	if ix.subscriptions == nil {
		ix.subscriptions = map[interestValue][]*subscription{}
		ix.scanned = map[interestValue]int{}
	}
	for _, v := range s.interest.values {
		ix.subscriptions[v] = append(ix.subscriptions[v], s)
		ix.count(v, 1)
	}
}

func (ix *interestIndex) remove(s *subscription) {
	for _, v := range s.interest.values {
		list := ix.subscriptions[v]
		i, last := slices.Index(list, s), len(list)-1
		list[i], list[last] = list[last], nil
		if ix.subscriptions[v] = list[:last]; last == 0 {
			delete(ix.subscriptions, v)
		}
		ix.count(v, -1)
	}
}

// count adds a value to the totals if n is 1, and removes it if n is -1.
func (ix *interestIndex) count(v interestValue, n int) {
	switch v.by {
	case byLabel:
		ix.labels += n
		return
	case byField:
		v.value = ""
	case byShard:
	default:
		return
	}
	if ix.scanned[v] += n; ix.scanned[v] == 0 {
		delete(ix.scanned, v)
	}
}

// offer first offers a change to the subscriptions whose interest the object's new version meets.
// Then it offers the change to the subscriptions whose interest only the old version meets. It
// returns an error if it cannot read an object.
func (ix *interestIndex) offer(m *matcher, ch *store.Change) error {
	ix.seq++
	leaves := false
	visit := func(list []*subscription) {
		for _, s := range list {
			if s.offeredSeq != ix.seq {
				s.offeredSeq = ix.seq
				s.offer(*ch, leaves)
			}
		}
	}
	for _, o := range []*store.Object{ch.New, ch.Old} {
		if o != nil {
			if err := ix.find(m, o, visit); err != nil {
				return err
			}
		}
		leaves = true
	}
	return nil
}

// find calls visit with the subscriptions whose interest the object meets.
func (ix *interestIndex) find(m *matcher, o *store.Object, visit func([]*subscription)) error {
	visit(ix.subscriptions[interestValue{by: byKey, value: o.Key()}])
	visit(ix.subscriptions[interestValue{by: byName, value: o.Name()}])
	visit(ix.subscriptions[interestValue{by: byNamespace, value: o.Namespace()}])
	for v := range ix.scanned {
		if v.by == byShard {
			if list := ix.subscriptions[v]; inShard(list[0].interest.shard, o) {
				visit(list)
			}
			continue
		}
		raw, err := m.bytes(o)
		if err != nil {
			return err
		}
		if v.value, m.values, err = m.cache.fields[v.name].value(raw, m.values); err != nil {
			return err
		}
		visit(ix.subscriptions[v])
	}
	if ix.labels == 0 {
		return nil
	}
	raw, err := m.bytes(o)
	if err == nil {
		err = m.readMeta(raw)
	}
	if err != nil {
		return err
	}
	for key, value := range m.meta.Labels() {
		visit(ix.subscriptions[interestValue{byLabel, string(key), string(value)}])
	}
	return nil
}
