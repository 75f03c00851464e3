package watchcache

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/store"
)

// checking makes the hub check its invariants after each change, and end the program if one is
// violated. It is true in tests, and with the build tag "invariants".
var checking = checks.Invariants

// If a hub has more than checkSubscriptions subscriptions, it checks only their number and its
// cursor, and not the subscriptions themselves.
const checkSubscriptions = 64

// must ends the program if ok is false, and prints the rule and the state that violates it.
func must(ok bool, rule string, state ...any) {
	if !ok {
		checks.Fail(fmt.Sprintf("watchcache: %s: %v", rule, state))
	}
}

// check ends the program if an invariant of the hub is violated. The caller holds h.mu.
func (h *hub) check() {
	must(h.n.Load() == int64(len(h.all)), "a hub's count of subscriptions", h.n.Load(), len(h.all))
	must((h.cursor != nil) == (len(h.all) > 0), "a hub has a cursor, or none, against its subscriptions", h.cursor != nil, len(h.all))
	if len(h.all) > checkSubscriptions {
		return
	}
	listed := map[*subscription]int{}
	for _, list := range h.interests.subscriptions {
		for _, s := range list {
			listed[s]++
		}
	}
	for s := range h.all {
		s.check()
		want := len(s.interest.values)
		must(listed[s] == want, "a subscription is not in the index once for each value of its interest", listed[s], s.interest.values)
		delete(listed, s)
	}
	must(len(listed) == 0, "a subscription that has left is in the index", len(listed))
}

// check ends the program if an invariant of the subscription is violated.
func (s *subscription) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.check(s.taken)
}

// check ends the program if an invariant of the queue is violated. taken are the changes that its
// consumer took and has not released. The caller holds the lock that guards q.
func (q *changeQueue) check(taken []store.Change) {
	keys, bytes := 0, int64(0)
	for i := range q.changes {
		if !isZero(q.changes[i]) {
			keys++
			bytes += sizeOf(&q.changes[i])
		}
	}
	for i := range taken {
		bytes += sizeOf(&taken[i])
	}
	must(q.index == nil || keys == len(q.index), "a queue that coalesces has one change for each key", keys, len(q.index))
	must(q.keys.Load() == int64(keys), "the number of changes in a queue", q.keys.Load(), keys)
	must(q.bytes.Load() == bytes, "the bytes of a queue", q.bytes.Load(), bytes)
}
