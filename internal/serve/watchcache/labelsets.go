package watchcache

import (
	"sync"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// labelSetIndex is the name of the index by all labels together.
const labelSetIndex = "label sets"

// labelSets caches the distinct label sets of the objects. Objects of one workload have the same
// labels, so there are few sets, and a new label selector is evaluated once a set rather than once
// an object. It is safe for concurrent use.
type labelSets struct {
	mu      sync.Mutex
	variety uint64 // of the index that sets was read from
	sets    []labelSet
}

type labelSet struct {
	text   string // the value in the index
	labels []label
}

type label struct {
	key   string
	value []byte
}

const (
	// minObjectsPerSet is the mean number of objects in a set below which sets are not used.
	minObjectsPerSet = 4
	// minToUseSets is the number of candidates from another index up to which sets are not used.
	minToUseSets = 64
)

// get returns the label sets of a snapshot, or nil if there are none or too many. The result is
// shared; do not modify it.
func (ls *labelSets) get(sn *store.Snapshot) []labelSet {
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
	var all []labelSet
	for text := range sn.Values(labelSetIndex) {
		if len(all) == most {
			all = nil
			break
		}
		s := labelSet{text: text}
		for key, value := range wire.EachLabel(text) {
			s.labels = append(s.labels, label{key, []byte(value)})
		}
		all = append(all, s)
	}
	ls.variety, ls.sets = variety, all
	return all
}

// matches reports whether an object with these labels meets all requirements.
func (s *labelSet) matches(terms []labelTerm) bool {
	for i := range terms {
		value, ok := s.value(terms[i].key)
		if !terms[i].matches(value, ok) {
			return false
		}
	}
	return true
}

func (s *labelSet) value(key string) ([]byte, bool) {
	for i := range s.labels {
		if s.labels[i].key == key {
			return s.labels[i].value, true
		}
	}
	return nil, false
}

// planByLabelSets makes the plan use the label sets that match the selector, if that leaves fewer
// objects.
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
	for i := range sets {
		if !sets[i].matches(s.labels) {
			continue
		}
		more, _ := p.state.sn.CountBy(labelSetIndex, sets[i].text, most-n+1)
		if n += more; n > most {
			return
		}
		chosen = append(chosen, sets[i].text)
	}
	rest := *s
	rest.labels, rest.never = nil, len(chosen) == 0
	p.index, p.lookup, p.estimate, p.residual = x, indexLookup{name: labelSetIndex, values: chosen, label: -1}, n, &rest
	p.setsVisited = len(sets)
}
