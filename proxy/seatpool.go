package proxy

import (
	"context"
	"sync"
	"time"
)

// priorityLevel is the priority of a request. Lower ones come first.
type priorityLevel int

const (
	// levelLeases are those of coordination.k8s.io: one that is not renewed in time costs a leader
	// its office, and a node its pods.
	levelLeases priorityLevel = iota
	// levelSystem are the callers that a cluster is run by.
	levelSystem
	// levelEveryone are all others.
	levelEveryone
	priorityLevels
)

func (c priorityLevel) String() string {
	return [priorityLevels]string{"leases", "system", "everybody"}[c]
}

// reservedPercent is how many of a hundred seats nobody but the class may take. Everybody has some
// too: anybody may ask for leases, and come first.
var reservedPercent = [priorityLevels]int{levelLeases: 5, levelSystem: 20, levelEveryone: 25}

const (
	defaultReadOnly = 1000
	defaultMutating = 200
	// maxQueued bounds the requests of one flow that wait for a seat. Those of a class are bounded
	// by the number of seats.
	maxQueued = 50
)

// flow is whose requests share seats with others by turns: those of one caller, in one class.
type flow struct {
	level  priorityLevel
	caller string
}

// seatPool bounds the requests of one kind that are under way at once, and shares them fairly. Each
// class has seats of its own, and takes of the common ones beyond that. A request without a seat
// waits for one in the line of its flow; a seat that becomes free goes to the highest class, and in
// it to the flow that has the fewest seats. One flow never has more than half of the seats that its
// class may take, so that others need not wait until its requests have ended. Safe for concurrent
// use; it has no goroutine.
type seatPool struct {
	limit    int
	maxWait  time.Duration // for how long a request waits
	reserved [priorityLevels]int

	mu      sync.Mutex
	peak    peakGauge
	taken   [priorityLevels]int
	waiting [priorityLevels]int
	flows   map[flow]*flowQueue // those that have a seat or wait for one
	queued  map[*flowQueue]struct{}
	seq     uint64
}

// flowQueue is one flow.
type flowQueue struct {
	flow
	taken int
	queue []*seatRequest // maxQueued at most
}

// seatRequest is a request that waits.
type seatRequest struct {
	seq     uint64
	granted chan struct{} // closed with a seat
}

func newSeatPool(limit int, wait time.Duration) *seatPool {
	s := &seatPool{limit: limit, maxWait: wait, flows: map[flow]*flowQueue{}, queued: map[*flowQueue]struct{}{}}
	for c := range priorityLevels {
		s.reserved[c] = limit * reservedPercent[c] / 100
	}
	return s
}

// shared returns how many seats no class has for its own.
func (s *seatPool) shared() int {
	n := s.limit
	for _, own := range s.reserved {
		n -= own
	}
	return n
}

// acquire takes a seat, and reports whether it has one. It waits for one no longer than s.wait or
// ctx, and not at all where too many wait already. Who has a seat must leave.
func (s *seatPool) acquire(ctx context.Context, f flow) bool {
	t := s.request(f)
	if t == nil {
		return false
	}
	select {
	case <-t.granted:
		return true
	default:
	}
	timer := time.NewTimer(s.maxWait)
	defer timer.Stop()
	select {
	case <-t.granted:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.cancel(f, t)
}

// request takes a seat or a place in the line; nil: there is neither.
func (s *seatPool) request(f flow) *seatRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f]
	if l == nil {
		l = &flowQueue{flow: f}
	}
	t := &seatRequest{granted: make(chan struct{})}
	// Whoever waits and could have a seat has been given one, so that nobody is passed by.
	if len(l.queue) == 0 && s.mayTake(l) {
		s.flows[f] = l
		s.grant(l, t)
		return t
	}
	if len(l.queue) >= maxQueued || s.waiting[f.level] >= s.limit {
		return nil
	}
	s.seq++
	t.seq = s.seq
	s.flows[f] = l
	l.queue = append(l.queue, t)
	s.waiting[f.level]++
	s.queued[l] = struct{}{}
	return t
}

// mayTake reports whether a flow may have one more seat. The lock is held.
func (s *seatPool) mayTake(l *flowQueue) bool {
	if l.taken >= max((s.shared()+s.reserved[l.level])/2, 1) {
		return false
	}
	if s.taken[l.level] < s.reserved[l.level] {
		return true
	}
	free := s.shared()
	for c := range priorityLevels {
		free -= max(s.taken[c]-s.reserved[c], 0)
	}
	return free > 0
}

// grant gives a seat to a request of a flow. The lock is held.
func (s *seatPool) grant(l *flowQueue, t *seatRequest) {
	l.taken++
	s.taken[l.level]++
	s.peak.add(time.Now(), 1)
	close(t.granted)
}

// cancel takes a request out of its line. It returns true if the request has been given a seat
// meanwhile.
func (s *seatPool) cancel(f flow, t *seatRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.granted:
		return true
	default:
	}
	l := s.flows[f]
	for i := range l.queue {
		if l.queue[i] == t {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			break
		}
	}
	s.waiting[f.level]--
	s.forgetIdle(l)
	return false
}

// release gives a seat back, and to whoever is next.
func (s *seatPool) release(f flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f]
	l.taken--
	s.taken[f.level]--
	s.peak.add(time.Now(), -1)
	s.forgetIdle(l)
	for {
		next := s.next()
		if next == nil {
			return
		}
		t := next.queue[0]
		next.queue = next.queue[1:]
		s.waiting[next.level]--
		s.grant(next, t)
		s.forgetIdle(next)
	}
}

// next returns the flow that is to have a free seat; nil: none may. The lock is held.
func (s *seatPool) next() (first *flowQueue) {
	for l := range s.queued {
		if s.mayTake(l) && (first == nil || l.before(first)) {
			first = l
		}
	}
	return first
}

// before reports whether a flow is to have a seat before another: by class, by the seats that it
// has, and by how long it has waited.
func (l *flowQueue) before(other *flowQueue) bool {
	switch {
	case l.level != other.level:
		return l.level < other.level
	case l.taken != other.taken:
		return l.taken < other.taken
	}
	return l.queue[0].seq < other.queue[0].seq
}

// forgetIdle forgets a flow that needs not be remembered. The lock is held.
func (s *seatPool) forgetIdle(l *flowQueue) {
	if len(l.queue) == 0 {
		delete(s.queued, l)
		if l.queue = nil; l.taken == 0 {
			delete(s.flows, l.flow)
		}
	}
}

// inUse returns how many requests have a seat.
func (s *seatPool) inUse() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taken := range s.taken {
		n += taken
	}
	return n
}

// counts returns how many requests of each class have a seat, and how many wait.
func (s *seatPool) counts() (taken, waiting [priorityLevels]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.waiting
}

// peakInUse returns the most requests that had a seat at once in the last second.
func (s *seatPool) peakInUse(at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak.max(at)
}

// peakGauge remembers the most that a number was in this second and in the one before. A lock of
// its owner's guards it.
type peakGauge struct {
	now       int
	second    int64 // Unix
	perSecond [2]int
}

func (p *peakGauge) add(at time.Time, by int) {
	p.advance(at)
	p.now += by
	p.perSecond[0] = max(p.perSecond[0], p.now)
}

func (p *peakGauge) max(at time.Time) int {
	p.advance(at)
	return max(p.perSecond[0], p.perSecond[1])
}

// advance begins a new second.
func (p *peakGauge) advance(at time.Time) {
	switch second := at.Unix(); {
	case second == p.second:
	case second == p.second+1:
		p.second, p.perSecond = second, [2]int{p.now, p.perSecond[0]}
	default:
		p.second, p.perSecond = second, [2]int{p.now, p.now}
	}
}
