package watchcache

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/shard"
	"github.com/weirproject/weir/internal/store"
)

// plan is how what a selector chooses is found in one state: by an index, or by walking over the table.
type plan struct {
	state *state
	index *index    // nil: the table
	by    lookup    // what is looked up in the index
	few   int       // so many objects there are in the index at most; 0: not known
	sets  int       // label sets that were looked at to find them
	rest  *selector // what of the selector is still to be looked at in each object
	shard *shard.Selector
}

// lookup is a requirement that an index can answer.
type lookup struct {
	name   string // of the index
	values []string
	label  int // which of the selector's labels it is; -1: it is a field
}

// lookups are the requirements of a selector that an index could answer.
func (s *selector) lookups() (out []lookup) {
	for i := range s.labels {
		if values, ok := s.labels[i].exact(); ok {
			out = append(out, lookup{labelIndexName(s.labels[i].key), values, i})
		}
	}
	for _, t := range s.terms {
		// An index has only what is there.
		if !t.not && t.value != "" && t.value != t.field.Default && len(t.field.paths) == 1 {
			out = append(out, lookup{fieldIndexName(t.field.Label), []string{t.value}, -1})
		}
	}
	return out
}

// without is the selector without one of its labels.
func (s *selector) without(label int) *selector {
	rest := *s
	rest.labels = slices.Delete(slices.Clone(s.labels), label, label+1)
	return &rest
}

// plan chooses the index that has the fewest objects to look at.
func (c *Cache) plan(st *state, s *selector) plan {
	p := plan{state: st, shard: s.shard}
	s = s.unsharded()
	p.rest = s
	if s.never || len(st.keys) > 0 { // the indexes are those of the snapshot
		return p
	}
	fewest := st.sn.Len()
	for _, l := range s.lookups() {
		x := c.indexes.get(l.name)
		if x == nil {
			continue
		}
		n := 0
		for _, v := range l.values {
			more, ok := st.sn.CountBy(l.name, v, fewest-n)
			if n += more; !ok {
				n = fewest // not in this snapshot
			}
		}
		if n < fewest || n == 0 {
			fewest, p.index, p.by, p.few = n, x, l, n
		}
	}
	if p.index != nil && p.by.label >= 0 {
		p.rest = s.without(p.by.label)
	}
	c.bySets(&p, s)
	return p
}

// walk yields the objects of the shard that may match, in key order, from the key start on. They need not all match the rest of the
// selector.
func (p *plan) walk(start string) iter.Seq[*store.Object] {
	s := p.rest
	if s.never {
		return func(func(*store.Object) bool) {}
	}
	prefix := ""
	switch {
	case s.namespace != "":
		prefix = s.namespace + "/" + s.name
	case s.name != "" && s.clustered:
		prefix = s.name
	}
	start = max(start, prefix)
	objects := p.from(start, prefix)
	return func(yield func(*store.Object) bool) {
		for o := range objects {
			if !strings.HasPrefix(o.Key(), prefix) {
				return
			}
			if p.shard != nil && !inShard(p.shard, o) {
				continue
			}
			if !yield(o) {
				return
			}
		}
	}
}

// from yields what there is from a key on, in key order; what has not the prefix may be left out.
func (p *plan) from(start, prefix string) iter.Seq[*store.Object] {
	if p.index == nil {
		return p.state.from(start)
	}
	if len(p.by.values) == 1 {
		objects, _ := p.state.sn.ByFrom(p.by.name, p.by.values[0], start) // it is there: it was asked before
		return objects
	}
	var all []*store.Object // each has one value
	for _, v := range p.by.values {
		objects, _ := p.state.sn.ByFrom(p.by.name, v, start)
		for o := range objects {
			if !strings.HasPrefix(o.Key(), prefix) {
				break
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *store.Object) int { return cmp.Compare(a.Key(), b.Key()) })
	return slices.Values(all)
}
