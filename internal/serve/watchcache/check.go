package watchcache

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/invariants"
)

// checking makes the hub check its state after each change, and panic if a rule is broken. Tests
// set it. The rules stand beside the fields of hub.
var checking = invariants.Enabled

// checkSubscriptions bounds the subscriptions of a hub that is checked after each change.
const checkSubscriptions = 64

// must ends the program with what the rule is about, if the rule is broken.
func must(ok bool, rule string, state ...any) {
	if !ok {
		invariants.Fail(fmt.Sprintf("watchcache: %s: %v", rule, state))
	}
}

// check checks the rules of the hub. The caller holds the lock.
func (h *hub) check() {
	must(h.n.Load() == int64(len(h.all)), "a hub's count of subscriptions", h.n.Load(), len(h.all))
	must((h.cursor != nil) == (len(h.all) > 0), "a hub has a cursor, or none, against its subscriptions", h.cursor != nil, len(h.all))
	if len(h.all) > checkSubscriptions {
		return
	}
	listed := h.interests.count()
	for s := range h.all {
		s.check()
	}
	for s := range h.all {
		want := len(s.interest.values)
		must(listed[s] == want, "a subscription is not in the index once for each value of its interest", listed[s], s.interest.values)
		delete(listed, s)
	}
	must(len(listed) == 0, "a subscription that has left is in the index", len(listed))
}

// check checks the rules of a subscription.
func (s *subscription) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := int64(0)
	for _, changes := range [][]*heldChange{s.queue, s.taken} {
		for _, held := range changes {
			must(held.refs.Load() > 0, "a subscription has a change that it does not hold", held.Key())
			bytes += int64(held.size)
		}
	}
	must(s.bytes == bytes, "a subscription's bytes", s.bytes, bytes)
	if s.overflow != nil {
		s.overflow.check()
	}
}

// check checks the rules of coalesced changes, with those who add and drop kept out.
func (g *coalescedChanges) check() {
	keys, bytes := 0, int64(0)
	for _, held := range g.changes {
		if held != nil {
			keys++
			bytes += int64(held.size) + coalescedBytes
		}
	}
	must(keys == len(g.last) && g.keys.Load() == int64(keys), "coalesced changes are not one a key", keys, len(g.last), g.keys.Load())
	must(g.bytes.Load() == bytes, "the bytes of coalesced changes", g.bytes.Load(), bytes)
}

// count returns how many times each subscription is in the index.
func (ix *interestIndex) count() map[*subscription]int {
	n := map[*subscription]int{}
	add := func(b bucket) {
		for _, list := range b {
			for _, s := range list {
				n[s]++
			}
		}
	}
	for _, b := range []bucket{ix.keys, ix.names, ix.namespaces, ix.shards} {
		add(b)
	}
	for _, b := range ix.fields {
		add(b)
	}
	for _, b := range ix.labels {
		add(b)
	}
	return n
}
