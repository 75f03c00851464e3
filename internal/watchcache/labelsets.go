package watchcache

import (
	"sync"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// labelSetIndex is the name of the index by all labels together.
const labelSetIndex = "label sets"

// labelSets are the different sets of labels that the objects have. The objects of a workload have the same one, so there are few, and a
// label selector that nobody has asked for before is decided once for each of them rather than for each object. Safe for concurrent use.
type labelSets struct {
	mu      sync.Mutex
	variety uint64 // of the index that all is of
	all     []labelSet
}

type labelSet struct {
	text   string // as the index has it
	labels []label
}

type label struct {
	key   string
	value []byte
}

const (
	// setsShare is how many objects there must be to a set, in the mean: else the sets tell no more than the objects.
	setsShare = 4
	// fewBySets is how many objects an index may give to choose from, so that the sets are not asked.
	fewBySets = 64
)

// of returns the sets of a snapshot, which nobody may change; nil: it has none, or too many to be of use.
func (ls *labelSets) of(sn *store.Snapshot) []labelSet {
	variety := sn.Variety(labelSetIndex)
	if variety == 0 {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.variety == variety {
		return ls.all
	}
	most := max(sn.Len()/setsShare, fewBySets)
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
	ls.variety, ls.all = variety, all
	return all
}

// fulfils says whether an object with these labels fulfils all requirements on labels.
func (s *labelSet) fulfils(terms []labelTerm) bool {
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

// bySets replaces a plan by one that has the objects of the label sets that the selector chooses, if these are fewer.
func (c *Cache) bySets(p *plan, s *selector) {
	if len(s.labels) == 0 || p.index != nil && p.few <= fewBySets {
		return
	}
	x := c.indexes.get(labelSetIndex)
	if x == nil {
		return
	}
	sets := c.sets.of(p.state.sn)
	if sets == nil {
		return
	}
	most := p.state.sn.Len()
	if p.index != nil {
		most = p.few
	}
	var chosen []string
	n := 0
	for i := range sets {
		if !sets[i].fulfils(s.labels) {
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
	p.index, p.by, p.few, p.rest = x, lookup{name: labelSetIndex, values: chosen, label: -1}, n, &rest
	p.sets = len(sets)
}
