package watchcache

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// queryPlan says how to find the objects that a selector matches in one state: by an index, or by a
// walk over the table. The table contains all objects of the store.
type queryPlan struct {
	state    *state
	index    *index      // nil: walk the table
	lookup   indexLookup // requirement that the index answers
	estimate int         // upper bound of the matching objects in the index; 0: unknown
	residual *selector   // requirements that the caller must still check for each object
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
		if values, ok := exactValues(&s.labels[i]); ok {
			out = append(out, indexLookup{labelPrefix + s.labels[i].Key(), values, i})
		}
	}
	for _, t := range s.fields {
		// An index contains only objects that have the field.
		if !t.not && t.value != "" && t.value != t.field.Default && len(t.field.paths) == 1 {
			out = append(out, indexLookup{fieldPrefix + t.field.Label, []string{t.value}, -1})
		}
	}
	return out
}

// without returns a copy of s without one label requirement. label is the position of that
// requirement in s.labels.
func (s *selector) without(label int) *selector {
	rest := *s
	rest.labels = slices.Delete(slices.Clone(s.labels), label, label+1)
	return &rest
}

// planQuery returns a plan that uses the index with the fewest candidates.
func (c *Cache) planQuery(st *state, s *selector) queryPlan {
	p := queryPlan{state: st, residual: s}
	if s.never || len(st.keys) > 0 { // indexes find objects of the snapshot only
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
				n = fewest // this snapshot has no such index
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

// walk yields the candidates in key order, starting at start. The caller must check them against
// p.residual.
func (p *queryPlan) walk(start string) iter.Seq[*store.Object] {
	s := p.residual
	if s.never {
		return func(func(*store.Object) bool) {}
	}
	prefix := ""
	if s.namespace != "" {
		prefix = s.namespace + "/" + s.name
	} else if s.name != "" && s.clustered {
		prefix = s.name
	}
	start = max(start, prefix)
	objects := p.scan(start, prefix)
	return func(yield func(*store.Object) bool) {
		for o := range objects {
			if !strings.HasPrefix(o.Key(), prefix) || !yield(o) {
				return
			}
		}
	}
}

// scan yields the candidates in key order, starting at start. It may omit keys without the prefix.
func (p *queryPlan) scan(start, prefix string) iter.Seq[*store.Object] {
	if p.index == nil {
		return p.state.from(start)
	}
	if len(p.lookup.values) == 1 {
		// The index exists, because CountBy has found it.
		objects, _ := p.state.sn.ByFrom(p.lookup.name, p.lookup.values[0], start)
		return objects
	}
	var all []*store.Object // an object has one value of the label, so no object occurs twice
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

// labelSetIndex is the name of the index by label set.
const labelSetIndex = "label sets"

// labelSets caches the distinct label sets of the objects. Objects of one workload have the same
// labels, so there are few sets. The cache evaluates a new label selector once per set instead of
// once per object. It is safe for concurrent use.
type labelSets struct {
	mu      sync.Mutex
	variety uint64 // the index's Variety when sets was read; it changes when the index's sets change
	sets    *distinctSets
}

// distinctSets contains label sets. Each set is a string, the value under which the index has it. A
// distinctSets is immutable.
type distinctSets struct {
	all    []string
	having map[labelValue][]string // the sets that have a label, by label
}

type labelValue struct{ key, value string }

const (
	// minObjectsPerSet is the least mean number of objects per set at which plans use more than
	// minToUseSets sets.
	minObjectsPerSet = 4
	// If another index leaves at most minToUseSets candidates, a plan does not use the sets.
	minToUseSets = 64
)

// get returns the label sets of a snapshot. It returns nil without an index, or if there are too
// many sets.
func (ls *labelSets) get(sn *store.Snapshot) *distinctSets {
	variety := sn.Variety(labelSetIndex)
	if variety == 0 {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.variety == variety {
		return ls.sets
	}
	most := max(sn.Len()/minObjectsPerSet, minToUseSets)
	sets := &distinctSets{having: map[labelValue][]string{}}
	for set := range sn.Values(labelSetIndex) {
		if len(sets.all) == most {
			sets = nil
			break
		}
		sets.all = append(sets.all, set)
		for key, value := range wire.EachLabel(set) {
			l := labelValue{key, value}
			sets.having[l] = append(sets.having[l], set)
		}
	}
	ls.variety, ls.sets = variety, sets
	return sets
}

// candidates returns the sets that can meet the requirements: the sets with a label value that the
// first exact requirement allows, or all sets if there is no exact requirement.
func (ds *distinctSets) candidates(all labels.Requirements) []string {
	for i := range all {
		values, ok := exactValues(&all[i])
		if !ok {
			continue
		}
		var out []string // a set has one value of a label, so no set occurs twice
		for _, value := range values {
			out = append(out, ds.having[labelValue{all[i].Key(), value}]...)
		}
		return out
	}
	return ds.all
}

// labelsOf returns the labels in a label set.
func labelsOf(set string) labelLookup {
	return func(key string) (string, bool) {
		for k, value := range wire.EachLabel(set) {
			if k == key {
				return value, true
			}
		}
		return "", false
	}
}

// planByLabelSets changes the plan to use the label sets that match the selector, if these sets
// have at most as many objects as the plan has candidates.
func (c *Cache) planByLabelSets(p *queryPlan, s *selector) {
	if len(s.labels) == 0 || p.index != nil && p.estimate <= minToUseSets {
		return
	}
	x := c.indexes.get(labelSetIndex)
	if x == nil {
		return
	}
	sets := c.sets.get(p.state.sn)
	if sets == nil {
		return
	}
	most := p.state.sn.Len()
	if p.index != nil {
		most = p.estimate
	}
	var chosen []string
	n := 0
	for _, set := range sets.candidates(s.labels) {
		if !matchesAll(s.labels, labelsOf(set)) {
			continue
		}
		more, _ := p.state.sn.CountBy(labelSetIndex, set, most-n+1)
		if n += more; n > most {
			return
		}
		chosen = append(chosen, set)
	}
	rest := *s
	rest.labels, rest.never = nil, len(chosen) == 0
	p.index, p.lookup, p.estimate, p.residual = x, indexLookup{name: labelSetIndex, values: chosen, label: -1}, n, &rest
}
