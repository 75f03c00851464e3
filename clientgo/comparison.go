package clientgo

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/engine"
)

// side is one of the two informers that Options.Shadow compares.
type side uint8

const (
	weirSide side = iota
	clientGoSide
)

func (s side) String() string { return [...]string{"weir", "client-go"}[s] }

const (
	// shadowGrace is how long a difference must last before it counts.
	shadowGrace = 30 * time.Second
	// stallLimit replaces shadowGrace while an informer has not received the version that its handler
	// lacks, or has gone back: it may be waiting for its server, or the server was restored.
	stallLimit = 5 * time.Minute
	// judgeEvery is the time between two calls of judge.
	judgeEvery = 10 * time.Second
	// maxAhead limits the versions of a key that a comparison keeps until the other side delivers
	// them.
	maxAhead = 64
	// maxGone limits the deleted keys that a comparison keeps while one side lags.
	maxGone = 10_000
)

// position orders the versions of a key. It is twice the resourceVersion, plus 1 for a deletion.
// Position 0 means that a side has not delivered the key.
type position uint64

func (p position) resourceVersion() uint64 { return uint64(p) >> 1 }

// gone reports whether a side that delivered p last has no such object.
func (p position) gone() bool { return p == 0 || p&1 == 1 }

// sighting is a version that a side has delivered.
type sighting struct {
	at   position
	hash uint64 // of the content; 0 if it is not compared
	seen time.Time
}

// openKey is a key for which the sides have not delivered the same newest version.
type openKey struct {
	last  [2]sighting
	ahead []sighting // what one side has delivered and the other has not reached, oldest first
	// back is when a side delivered an older version than before, the version high. After the restore
	// of a server from a backup, both sides do.
	back     [2]time.Time
	high     [2]position
	mismatch time.Time // when the sides had delivered different content of one version
	fields   []string  // the paths of the fields that differed; nil if unknown
}

// progress is the state of a side at one call of judge.
type progress struct {
	// reached is the resourceVersion up to which the informer has received everything. It is 0 until
	// the informer and the handler have synced.
	reached uint64
	idle    bool // the handler is outside a call
}

// comparison compares what two handlers receive, one per side. It needs about 40 bytes per object,
// and up to 2 KiB for an object while one side lags. If one side lags by more than maxGone deleted
// objects, the comparison ends, because it would otherwise grow without bound. It keeps no objects.
// It is safe for concurrent use; no method waits for a handler.
type comparison struct {
	counts *engine.Comparison
	seed   maphash.Seed

	mu      sync.Mutex
	settled map[uint64]position // the newest version, which both have delivered, by hash of the key
	open    map[string]*openKey
	full    bool          // there were more than maxGone deleted keys: nothing is compared any more
	window  [][2]progress // of the last calls of judge, in shadowGrace; the newest is last
}

func newComparison(counts *engine.Comparison) *comparison {
	return &comparison{counts: counts, seed: maphash.MakeSeed(), settled: map[uint64]position{}, open: map[string]*openKey{}}
}

// observe records that a side has delivered a version of a key. If the other side has delivered the
// same version with other content, it calls fields for the paths of the fields.
func (c *comparison) observe(s side, key string, v sighting, fields func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.open[key]
	if c.full {
		c.counts.Unjudged.Add(1)
		return
	}
	if k == nil {
		both := sighting{at: c.settled[maphash.String(c.seed, key)]}
		k = &openKey{last: [2]sighting{both, both}}
	}
	last, other := k.last[s].at, k.last[1-s]
	if v.at.gone() {
		v.at = max(v.at, last|1) // a tombstone has the resourceVersion of some earlier version
	}
	n, found := slices.BinarySearchFunc(k.ahead, v.at, func(a sighting, at position) int { return cmp.Compare(a.at, at) })
	if v.at.gone() && !found && v.at < other.at {
		// Of the next deletion, this side has received a tombstone.
		if m := slices.IndexFunc(k.ahead[n:], func(a sighting) bool { return a.at.gone() }); m >= 0 {
			n, found = n+m, true
		}
	}
	switch {
	case v.at == last:
		return // a resync
	case v.at < last:
		k.back[s], k.high[s], k.ahead = v.seen, max(k.high[s], last), nil
		if other.at > v.at {
			k.ahead = []sighting{{other.at, other.hash, v.seen}}
		} else if other.at < v.at {
			k.ahead = []sighting{v}
		}
	case v.at > other.at: // s leads
		if other.at > last {
			c.only(1 - s).Add(int64(len(k.ahead)))
			k.ahead = nil
		}
		if k.ahead = append(k.ahead, v); len(k.ahead) > maxAhead {
			c.counts.Unjudged.Add(1)
			k.ahead = slices.Delete(k.ahead, 1, 2) // the oldest decides when the other side is late
		}
	case found:
		c.only(1 - s).Add(int64(n))
		c.counts.Events.Add(1)
		if theirs := k.ahead[n].hash; theirs != 0 && v.hash != 0 {
			c.counts.Objects.Add(1)
			if theirs != v.hash && k.mismatch.IsZero() {
				k.mismatch, k.fields = v.seen, fields()
			}
		}
		k.ahead = k.ahead[n+1:]
	default: // the other side has gone past v without it
		c.only(1 - s).Add(int64(n))
		c.only(s).Add(1)
		k.ahead = k.ahead[n:]
	}
	k.last[s] = v
	c.keep(key, k)
}

// keep stores a key: as settled if nothing about it is in question, otherwise as open.
func (c *comparison) keep(key string, k *openKey) {
	a, b := k.last[0].at, k.last[1].at
	if (a == b || a.gone() && b.gone() && len(k.ahead) == 0) && k.mismatch.IsZero() && k.back[0].IsZero() && k.back[1].IsZero() {
		c.settle(key, a)
	} else {
		c.open[key] = k
	}
}

// settle closes a key whose newest version is at.
func (c *comparison) settle(key string, at position) {
	delete(c.open, key)
	if id := maphash.String(c.seed, key); at.gone() {
		delete(c.settled, id)
	} else {
		c.settled[id] = at
	}
}

// judge calls report for each difference that has lasted long enough, once. Call it every
// judgeEvery with the progress of both sides.
func (c *comparison) judge(now time.Time, state [2]progress, report func(key, kind string, of side, k *openKey)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window = append(c.window, state)
	c.window = c.window[max(0, len(c.window)-int(shadowGrace/judgeEvery)-1):]
	gone := 0
	for key, k := range c.open {
		if k.last[0].at.gone() && k.last[1].at.gone() {
			gone++
		}
		if kind, of := c.difference(now, k); kind != "" {
			if kind == equal {
				c.only(1 - of).Add(int64(len(k.ahead)))
			} else {
				c.counts.Differences.Add(1)
				report(key, kind, of, k)
			}
			c.settle(key, max(k.last[0].at, k.last[1].at))
		} else if !k.back[0].IsZero() && !k.back[1].IsZero() && now.Sub(k.back[0]) >= shadowGrace && now.Sub(k.back[1]) >= shadowGrace {
			*k = openKey{last: k.last, ahead: k.ahead} // the server was restored
			c.keep(key, k)
		}
	}
	if c.full = c.full || gone > maxGone; c.full {
		c.counts.Unjudged.Add(int64(len(c.open)))
		clear(c.open)
		clear(c.settled)
	}
}

// only returns the count of the versions that only one side delivered.
func (c *comparison) only(s side) *atomic.Int64 {
	return [2]*atomic.Int64{&c.counts.OnlyWeir, &c.counts.OnlyClientGo}[s]
}

// equal is the kind of a key that both sides have deleted.
const equal = "equal"

// difference returns the kind of a key's difference if it counts, and the side whose versions are
// wrong; for different content it may be either. A side that lags is given time:
//   - until its informer has received the version for shadowGrace, or for stallLimit in all, as
//     always for a tombstone;
//   - if it lacks the object: until the other side has received what this side had received when
//     its handler was outside a call, or for stallLimit in all, because this side may have listed,
//     or its handler may have started, after a deletion that the other side has not received yet;
//   - until the handlers of both sides were outside a call after that: the event, or the other
//     side's next event, may wait for a slow handler, which is nearly always in a call.
func (c *comparison) difference(now time.Time, k *openKey) (kind string, of side) {
	const full = int(shadowGrace/judgeEvery) + 1
	if len(c.window) < full {
		return "", 0
	}
	back := [2]bool{!k.back[0].IsZero(), !k.back[1].IsZero()}
	for s := range side(2) {
		if age := now.Sub(k.back[s]); back[s] && !back[1-s] && (age >= stallLimit || age >= shadowGrace && c.window[0][s].reached >= k.high[s].resourceVersion()) {
			return "order", s
		}
	}
	if back[0] || back[1] {
		return "", 0
	}
	if !k.mismatch.IsZero() && now.Sub(k.mismatch) >= shadowGrace {
		return "content", weirSide
	}
	if k.last[clientGoSide].at < k.last[weirSide].at {
		of = clientGoSide
	}
	if len(k.ahead) == 0 {
		return "", 0
	}
	// A side that does not have the object may list after a deletion, and then delivers no earlier
	// version.
	awaited := k.ahead[0]
	for n, v := range k.ahead[:len(k.ahead)-1] {
		if v.at.gone() && k.last[of].at.gone() {
			awaited = k.ahead[n+1]
		}
	}
	late := now.Sub(awaited.seen)
	// A tombstone has the resourceVersion of a version before the deletion. So after a relist of the
	// other side, it is unknown whether the informer has received the deletion.
	reached, tombstone := c.window[0][of].reached, awaited.at == k.last[of].at|1
	// A side that leads for this key may be behind for its deletion, which the other side has skipped.
	idle := 1 + slices.IndexFunc(c.window[1:], func(p [2]progress) bool { return p[of].idle })
	drained := idle > 0 && slices.ContainsFunc(c.window[1:], func(p [2]progress) bool { return p[1-of].idle })
	lacks, theirs := k.last[of].at.gone(), c.window[full-2][1-of].reached
	if lacks {
		awaited = k.last[1-of] // a side that lists delivers no deletion if the object exists again
	}
	waits := tombstone || reached < awaited.at.resourceVersion() || lacks && theirs < c.window[idle][of].reached
	switch {
	case reached == 0 || c.window[0][1-of].reached == 0 || !drained || late < shadowGrace || waits && late < stallLimit:
		return "", 0
	case lacks && k.last[1-of].at.gone():
		return equal, of // one side has skipped the object
	case k.last[1-of].at.gone():
		return "missed deletion", of
	}
	return "missed version", of
}
