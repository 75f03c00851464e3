package watchcache

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// hub reads each change once for all selective watchers, and offers it only to the watchers whose
// interest the old or the new version of the object meets. It does not wake the other watchers. It
// runs one goroutine while it has subscriptions; the goroutine ends when the last subscription
// leaves. It is safe for concurrent use.
type hub struct {
	cache *Cache
	n     atomic.Int64 // len(all)

	mu        sync.Mutex
	cursor    *store.Cursor // at the next change to dispatch; nil exactly while all is empty
	all       map[*subscription]struct{}
	interests interestIndex // interests of the subscriptions in all
	reader    matcher
	changes   [batch]store.Change
	inBacklog bool // the changes come from the cursor's backlog, not from the log

	// backlogLock is held while changes of the backlog are dispatched. Each backlog change represents
	// several changes, so a watcher must receive the whole backlog or nothing of it.
	backlogLock sync.RWMutex
}

// join replaces cursor by a subscription, and closes cursor. The subscription first delivers the
// changes that cursor has not delivered yet.
func (h *hub) join(of interest, cursor *store.Cursor) (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer cursor.Close()
	if err := h.open(); err != nil {
		return nil, err
	}
	sub := &subscription{hub: h, interest: of, ready: make(chan struct{}, 1), queue: changeQueue{held: &h.cache.held}}
	for {
		h.dispatch()
		for n := cursor.Next(h.changes[:]); n > 0; n = cursor.Next(h.changes[:]) {
			for i := range h.changes[:n] {
				sub.offer(h.changes[i], false) // the watcher applies its selector to it
			}
			clear(h.changes[:n])
		}
		// If no change has arrived since dispatch, sub has received all changes. Otherwise try again.
		if h.cursor.Revision() == cursor.Revision() || h.cursor.Closed() {
			return h.add(sub), nil
		}
	}
}

// open starts the hub's goroutine when the first subscription is added. The caller holds h.mu.
func (h *hub) open() error {
	if h.cursor != nil {
		return nil
	}
	_, _, cursor, err := h.cache.now()
	if err != nil {
		return err
	}
	h.cursor = cursor
	h.reader = matcher{cache: h.cache}
	go h.run(cursor)
	return nil
}

// run dispatches changes until the last subscription leaves or the store is closed.
func (h *hub) run(cursor *store.Cursor) {
	for range cursor.Ready() {
		h.mu.Lock()
		if cursor.Closed() {
			break
		}
		h.dispatch()
		if checking {
			h.check()
		}
		h.mu.Unlock()
	}
	defer h.mu.Unlock()
	if h.cursor == cursor { // the store was closed
		for s := range h.all {
			s.end()
		}
	}
}

// flush dispatches all changes in the store. It returns false if the store was closed. In that
// case, some changes may not have been dispatched.
func (h *hub) flush() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cursor == nil {
		return true
	}
	h.dispatch()
	return !h.cursor.Closed()
}

// dispatch offers the new changes to the subscriptions. The caller holds h.mu.
func (h *hub) dispatch() {
	for n := h.cursor.Next(h.changes[:]); n > 0; n = h.cursor.Next(h.changes[:]) {
		coalesced := slices.ContainsFunc(h.changes[:n], func(ch store.Change) bool { return ch.Coalesced })
		if h.cursor.Pending() > 0 || coalesced {
			h.dispatchBacklog(n)
		} else {
			h.dispatchBatch(n)
		}
	}
	h.reader.forget()
}

// dispatchBacklog dispatches all changes of the cursor's backlog. The first n of them are in
// h.changes.
func (h *hub) dispatchBacklog(n int) {
	h.backlogLock.Lock()
	defer h.backlogLock.Unlock()
	h.inBacklog = true
	h.dispatchBatch(n)
	for h.cursor.Pending() > 0 {
		h.dispatchBatch(h.cursor.Next(h.changes[:]))
	}
	h.inBacklog = false
}

func (h *hub) dispatchBatch(n int) {
	for i := range h.changes[:n] {
		if h.interests.offer(&h.reader, &h.changes[i]) != nil {
			for s := range h.all { // each watcher then reads the object, and gets the error
				if s.offeredSeq != h.interests.seq {
					s.offer(h.changes[i], false)
				}
			}
		}
	}
	clear(h.changes[:n])
}

func (h *hub) add(s *subscription) *subscription {
	if h.all == nil {
		h.all = map[*subscription]struct{}{}
	}
	h.all[s] = struct{}{}
	h.n.Add(1)
	h.interests.add(s)
	if h.cursor.Closed() {
		s.end()
	}
	if checking {
		h.check()
	}
	return s
}

// leave ends a subscription. If it was the last one, leave closes the hub's cursor, which ends the
// hub's goroutine.
func (h *hub) leave(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.all[s]; !ok {
		return
	}
	delete(h.all, s)
	h.n.Add(-1)
	s.drop()
	h.interests.remove(s)
	if len(h.all) == 0 {
		h.cursor.Close()
		h.cursor = nil
		h.reader = matcher{}
	}
	if checking {
		h.check()
	}
}
