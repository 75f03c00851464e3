package watchcache

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/core/store"
)

// queryPlan says how the objects of a selector are found in one state: by an index, or by a walk
// over the table.
type queryPlan struct {
	state       *state
	index       *index      // nil: walk the table
	lookup      indexLookup // what is looked up in the index
	estimate    int         // upper bound of the objects in the index; 0: unknown
	setsVisited int         // label sets visited for the plan
	residual    *selector   // what must still be checked for each object
	shard       *shard.Selector
}

// indexLookup is a requirement that an index can answer.
type indexLookup struct {
	name   string // of the index
	values []string
	label  int // index of the requirement in selector.labels; -1: a field
}

// lookups returns the requirements of a selector that an index could answer.
func (s *selector) lookups() (out []indexLookup) {
	for i := range s.labels {
		if values, ok := s.labels[i].exactValues(); ok {
			out = append(out, indexLookup{labelIndexName(s.labels[i].key), values, i})
		}
	}
	for _, t := range s.fields {
		// An index has only objects that have the field.
		if !t.not && t.value != "" && t.value != t.field.Default && len(t.field.paths) == 1 {
			out = append(out, indexLookup{fieldIndexName(t.field.Label), []string{t.value}, -1})
		}
	}
	return out
}

// without returns the selector without one of its label requirements.
func (s *selector) without(label int) *selector {
	rest := *s
	rest.labels = slices.Delete(slices.Clone(s.labels), label, label+1)
	return &rest
}

// planQuery chooses the index with the fewest candidates.
func (c *Cache) planQuery(st *state, s *selector) queryPlan {
	p := queryPlan{state: st, shard: s.shard}
	s = s.unsharded()
	p.residual = s
	if s.never || len(st.keys) > 0 { // indexes belong to the snapshot
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
			fewest, p.index, p.lookup, p.estimate = n, x, l, n
		}
	}
	if p.index != nil && p.lookup.label >= 0 {
		p.residual = s.without(p.lookup.label)
	}
	c.planByLabelSets(&p, s)
	return p
}

// walk yields the candidates of the shard in key order, from start on. The caller checks them
// against the residual selector.
func (p *queryPlan) walk(start string) iter.Seq[*store.Object] {
	s := p.residual
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
	objects := p.scan(start, prefix)
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

// scan yields the candidates in key order, from start on. It may leave out keys without the prefix.
func (p *queryPlan) scan(start, prefix string) iter.Seq[*store.Object] {
	if p.index == nil {
		return p.state.from(start)
	}
	if len(p.lookup.values) == 1 {
		// It exists, since CountBy has found it.
		objects, _ := p.state.sn.ByFrom(p.lookup.name, p.lookup.values[0], start)
		return objects
	}
	var all []*store.Object // an object has one value, so no object comes twice
	for _, v := range p.lookup.values {
		objects, _ := p.state.sn.ByFrom(p.lookup.name, v, start)
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
