package api

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Scheme says how servers write revisions as resourceVersions.
type Scheme uint8

const (
	// Integers writes decimal integers that increase, as Kubernetes requires.
	Integers Scheme = iota
	// Opaque writes texts that cannot be compared.
	Opaque
)

// Change is one commit. Old and New are both nil if the commit changed an object of another
// resource.
type Change struct {
	Revision int64
	At       time.Duration
	Old, New *Version
}

// Key returns the key of the changed object. It panics for a change of another resource.
func (c Change) Key() Key {
	if c.New != nil {
		return c.New.Key
	}
	return c.Old.Key
}

// Era is a sequence of revisions in which each revision has exactly one state. A restore from a
// backup, or a replacement of the servers, starts a new era. An Era is not safe for concurrent use.
type Era struct {
	Index  int
	Scheme Scheme
	Parent *Era // the era with which this one shares states, or nil
	// the revision before the first change; up to Base, the states are those of Parent
	Base  int64
	Began time.Duration // the time at which the era started

	first     []*Version
	changes   []Change     // the changes with the revisions Base+1, Base+2, …
	states    [][]*Version // states[i] is the state after changes[i]
	compacted int64
}

// Head returns the newest revision.
func (e *Era) Head() int64 { return e.Base + int64(len(e.changes)) }

// At returns the versions of all objects at a revision, sorted by key. rev must not be above Head.
// Below Base, the states are those of Parent, if there is one. The result is shared; do not modify
// it.
func (e *Era) At(rev int64) []*Version {
	if rev <= e.Base {
		if e.Parent != nil && rev < e.Base {
			return e.Parent.At(rev)
		}
		return e.first
	}
	return e.states[min(rev, e.Head())-e.Base-1]
}

// Get returns the version of key at a revision, or nil if the object did not exist then.
func (e *Era) Get(rev int64, key Key) *Version {
	return find(e.At(rev), key)
}

func find(state []*Version, key Key) *Version {
	i, ok := search(state, key)
	if !ok {
		return nil
	}
	return state[i]
}

func search(state []*Version, key Key) (int, bool) {
	i := sort.Search(len(state), func(i int) bool { return !state[i].Key.Less(key) })
	return i, i < len(state) && state[i].Key == key
}

// Since returns the changes whose revisions are higher than the argument after, and at most the
// argument through. It omits changes up to Base. The result is shared; do not modify it.
func (e *Era) Since(after, through int64) []Change {
	from, to := max(after, e.Base)-e.Base, min(through, e.Head())-e.Base
	if from >= to {
		return nil
	}
	return e.changes[from:to]
}

// Change returns the change with revision rev. It panics unless Base < rev ≤ Head.
func (e *Era) Change(rev int64) Change { return e.changes[rev-e.Base-1] }

// RevisionAt returns the newest revision that was committed at time t or before, or Base if none
// was.
func (e *Era) RevisionAt(t time.Duration) int64 {
	return e.Base + int64(sort.Search(len(e.changes), func(i int) bool { return e.changes[i].At > t }))
}

// had reports whether one of e's revisions after Base has the same resourceVersion as the newest
// revision of the other era.
func (e *Era) had(other *Era) bool {
	head := other.Head()
	return e.Scheme == Integers && other.Scheme == Integers && e.Base < head && head <= e.Head()
}

// Compact makes states before rev unreadable.
func (e *Era) Compact(rev int64) { e.compacted = max(e.compacted, min(rev, e.Head())) }

// Compacted returns the oldest revision that can still be read.
func (e *Era) Compacted() int64 { return max(e.compacted, e.Base) }

// Has reports whether v is a version of this era, or a version of an older era in a state that this
// era shares.
func (e *Era) Has(v *Version) bool {
	for rev := e.Head(); e != nil; rev, e = min(rev, e.Base), e.Parent {
		if v.Era == e {
			return v.Revision <= rev
		}
	}
	return false
}

// Format writes a revision as a resourceVersion.
func (e *Era) Format(rev int64) string {
	if e.Scheme == Opaque {
		// Neither the whole text nor its first number increases with the revision.
		return "v" + strconv.Itoa(e.Index) + "-" + strconv.FormatInt((rev*7919)%104729, 36) + "." + strconv.FormatInt(rev, 36)
	}
	return strconv.FormatInt(rev, 10)
}

// Parse returns the revision of a resourceVersion. It returns false if the resourceVersion does not
// have this era's Scheme.
func (e *Era) Parse(s string) (int64, bool) {
	if e.Scheme == Opaque {
		i := strings.LastIndexByte(s, '.')
		if i < 0 {
			return 0, false
		}
		rev, err := strconv.ParseInt(s[i+1:], 36, 64)
		return rev, err == nil && e.Format(rev) == s
	}
	rev, err := strconv.ParseInt(s, 10, 64)
	return rev, err == nil && rev >= 0
}

func (e *Era) commit(at time.Duration, old, new *Version) {
	state := e.At(e.Head())
	if old != nil || new != nil {
		c := Change{Old: old, New: new}
		i, found := search(state, c.Key())
		switch {
		case new == nil:
			state = slices.Delete(slices.Clone(state), i, i+1)
		case found:
			state = slices.Clone(state)
			state[i] = new
		default:
			state = slices.Insert(slices.Clone(state), i, new)
		}
	}
	e.changes = append(e.changes, Change{Revision: e.Head() + 1, At: at, Old: old, New: new})
	e.states = append(e.states, state)
}
