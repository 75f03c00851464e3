package store

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var (
	mergedSeeds = flag.Uint64("merged.seeds", 3000, "how many histories TestMergedWatches draws")
	mergedFrom  = flag.Uint64("merged.from", 1, "the seed of the first")
)

// TestMergedWatches lets two writers read the watches of two selectors from watch caches of one
// server. The events of each watch are in order, but one watch may lag behind the other. A reader
// must not receive an older version of a key after a newer one. At the end, the store must have the
// server's state.
func TestMergedWatches(t *testing.T) {
	testenv.SkipUnderRace(t)
	for seed := *mergedFrom; seed < *mergedFrom+*mergedSeeds; seed++ {
		m := newMerged(seed)
		m.run(t)
		if m.failed != "" {
			t.Fatalf("seed %d: %s\n%s", seed, m.failed, strings.Join(m.log, "\n"))
		}
	}
}

// mergedVersion is one version of an object. A nil *mergedVersion means that the object does not
// exist.
type mergedVersion struct {
	key     string
	uid, rv int
	in      [2]bool // whether each selector matches it
}

// mergedChange is a change in a server, or in a watch cache of the server.
type mergedChange struct {
	old, new *mergedVersion
	rv       int
	missed   bool
}

func (c *mergedChange) key() string {
	if c.new != nil {
		return c.new.key
	}
	return c.old.key
}

// mergedCache is a watch cache: the changes that its watches send, and the versions at which a
// watch can resume.
type mergedCache struct {
	log    []mergedChange
	points []mergedPoint
	found  []mergedRelist
}

// mergedRelist says that a relist at version rv found the changes from..to of a cache's log.
type mergedRelist struct{ from, to, rv int }

type mergedPoint struct {
	rv, pos int
	gap     bool
}

func (c *mergedCache) resume(rv int) (pos int, ok bool) {
	i := len(c.points) - 1
	for i >= 0 && c.points[i].rv > rv {
		i--
	}
	if i < 0 || c.points[i].gap {
		return 0, false
	}
	return c.points[i].pos, true
}

// mergedWatch is a watch of one selector, and its writer.
type mergedWatch struct {
	selector int
	w        *Writer
	cache    *mergedCache
	pos      int
	sent     int // the version up to which the cache has sent events
	rv, is   int // the versions of the last event, and of the last event that was written
	inexact  int // while rv is below it, coalesced changes are still missing
	queue    []mergedEvent
}

type mergedEvent struct {
	deleted, bookmark bool
	v                 *mergedVersion
	rv                int
	inexact           int
}

type merged struct {
	*rand.Rand
	history []mergedChange
	caches  [2]*mergedCache
	watches [2]*mergedWatch
	store   *Store
	cursor  *Cursor
	held    map[string]*Object
	floor   map[string]uint64
	log     []string
	failed  string
}

func newMerged(seed uint64) *merged {
	m := &merged{Rand: rand.New(rand.NewPCG(seed, 7)), held: map[string]*Object{}, floor: map[string]uint64{}}
	m.draw()
	for i := range m.caches {
		m.caches[i] = m.cache()
	}
	return m
}

func (m *merged) chance(percent int) bool { return m.IntN(100) < percent }

// draw draws the history of the server at random.
func (m *merged) draw() {
	state := map[string]*mergedVersion{}
	keys, uid := 1+m.IntN(3), 0
	for rv := 10; rv < 20+m.IntN(30); rv++ {
		key := string(rune('a' + m.IntN(keys)))
		old := state[key]
		c := mergedChange{old: old, rv: rv}
		if old == nil || m.chance(70) {
			c.new = &mergedVersion{key: key, rv: rv, in: [2]bool{m.chance(60), m.chance(60)}}
			if c.new.uid = uid + 1; old == nil {
				uid++
			} else {
				c.new.uid = old.uid
			}
		}
		if state[key] = c.new; c.new == nil {
			delete(state, key)
		}
		m.history = append(m.history, c)
	}
}

// at returns the server's state after n changes.
func (m *merged) at(n int) map[string]*mergedVersion {
	state := map[string]*mergedVersion{}
	for _, c := range m.history[:n] {
		if state[c.key()] = c.new; c.new == nil {
			delete(state, c.key())
		}
	}
	return state
}

// cache draws a watch cache of the server at random. The cache receives the changes of the history
// one by one, and sometimes lists again instead.
func (m *merged) cache() *mergedCache {
	c := &mergedCache{points: []mergedPoint{{rv: m.history[0].rv}}}
	c.log = append(c.log, m.history[0])
	c.points[0].pos = 1
	for n := 1; n < len(m.history); {
		if !m.chance(15) {
			c.log = append(c.log, m.history[n])
			c.points = append(c.points, mergedPoint{rv: m.history[n].rv, pos: len(c.log)})
			n++
			continue
		}
		to := min(n+1+m.IntN(8), len(m.history))
		c.relist(m.at(n), m.at(to), m.history[n-1].rv, m.history[to-1].rv)
		n = to
	}
	return c
}

func (c *mergedCache) relist(before, after map[string]*mergedVersion, from, to int) {
	if from+1 < to {
		c.points = append(c.points, mergedPoint{rv: from + 1, gap: true})
	}
	var ends, puts []mergedChange
	for key, old := range before {
		if now := after[key]; now == nil || now.uid != old.uid {
			ends = append(ends, mergedChange{old: old, missed: true})
		}
	}
	for key, now := range after {
		old := before[key]
		if old != nil && old.uid != now.uid {
			old = nil
		}
		if old == nil || old.rv != now.rv {
			puts = append(puts, mergedChange{old: old, new: now, rv: now.rv})
		}
	}
	slices.SortFunc(ends, func(a, b mergedChange) int { return cmp.Compare(a.key(), b.key()) })
	slices.SortFunc(puts, func(a, b mergedChange) int { return cmp.Compare(a.rv, b.rv) })
	c.found = append(c.found, mergedRelist{len(c.log), len(c.log) + len(ends) + len(puts), to})
	c.log = append(append(c.log, ends...), puts...)
	c.points = append(c.points, mergedPoint{rv: to, pos: len(c.log)})
}

func (m *merged) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *merged) run(t *testing.T) {
	for i, c := range m.history {
		m.logf("server %d: %s %v -> %v", i, c.key(), c.old, c.new)
	}
	m.store = New(Config{Encoding: wire.Protobuf, Decode: decodePod})
	defer m.store.Close()
	for i := range m.watches {
		m.watches[i] = &mergedWatch{selector: i, w: m.store.Writer(Scope{Owner: uint8(i)})}
	}
	if m.cursor = m.store.Cursor(); m.chance(30) {
		m.cursor = m.store.NotifyingCursor(nil, nil)
	}
	for _, wt := range m.watches {
		m.list(t, wt, 1+m.IntN(min(4, len(m.history))))
	}
	lead := m.IntN(2)
	for !m.over() && m.failed == "" {
		if m.chance(10) {
			lead = m.IntN(2)
		}
		wt := m.watches[lead]
		if m.chance(20) {
			wt = m.watches[1-lead]
		}
		m.step(t, wt)
		if m.chance(70) {
			m.read()
		}
	}
	m.read()
	if m.failed == "" {
		m.compare()
	}
}
