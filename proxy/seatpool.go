package proxy

import (
	"context"
	"sync"
	"time"
)

// seatPool bounds how many requests run at once, and shares seats fairly. Each level has reserved
// seats, and competes for the shared ones. A request without a seat waits in the queue of its flow.
// A free seat goes to the highest level, and in it to the flow with the fewest seats. A flow has at
// most half of the seats that its level may take, so that others need not wait for its requests to
// end. It is safe for concurrent use and has no goroutine.
type seatPool struct {
	limit     int
	places    int           // bounds the waiting requests of a level
	maxQueued int           // bounds those of a flow
	maxWait   time.Duration // bounds the wait of a request
	reserved  [priorityLevels]int

	mu      sync.Mutex
	peak    peakGauge
	taken   [priorityLevels]int
	waiting [priorityLevels]int
	flows   map[flow]*flowQueue // those that have a seat or wait for one
	queued  map[*flowQueue]struct{}
	seq     uint64
}

// priorityLevel is the priority of a request. Lower levels come first.
type priorityLevel int

const (
	// levelSystemLeases is for coordination.k8s.io by callers that run the cluster: a late renewal
	// costs a leader its office, and a node its pods. Others cannot take these seats, however many
	// leases they ask for.
	levelSystemLeases priorityLevel = iota
	// levelLeases is for coordination.k8s.io by all others.
	levelLeases
	// levelSystem is for everything else by callers that run the cluster.
	levelSystem
	// levelEveryone is for all others.
	levelEveryone
	priorityLevels
)

func (l priorityLevel) String() string {
	return [priorityLevels]string{"system-leases", "leases", "system", "everybody"}[l]
}

// reservedPercent is the percentage of seats that only the level may take. Everyone has some too,
// because anybody may request leases, which come first.
var reservedPercent = [priorityLevels]int{levelSystemLeases: 5, levelLeases: 5, levelSystem: 15, levelEveryone: 25}

const (
	defaultReadOnly = 1000
	defaultMutating = 200
	// One flow may have queuedPercent of the places waiting, but at least minQueued. Once half of the
	// level's places are taken, it may have minQueued: the other half is for flows with few requests.
	// A level has as many places as there are seats, unless setPlaces says otherwise. With the default
	// of seats 300 reads of a flow wait, as in kube-apiserver, where a flow has six queues of 50: the
	// agents of all nodes are one user.
	minQueued     = 50
	queuedPercent = 30
)

// flow identifies the requests of one caller in one level, which take turns with other flows.
type flow struct {
	level  priorityLevel
	caller string
}

// flowQueue is the state of one flow.
type flowQueue struct {
	flow
	taken int
	queue []*seatRequest // seatPool.maxQueued at most
}

// seatRequest is a request for a seat.
type seatRequest struct {
	seq     uint64
	granted chan struct{} // closed when the seat is granted
}

func newSeatPool(limit int, wait time.Duration) *seatPool {
	s := &seatPool{limit: limit, maxWait: wait, flows: map[flow]*flowQueue{}, queued: map[*flowQueue]struct{}{}}
	s.setPlaces(limit)
	for level := range priorityLevels {
		s.reserved[level] = limit * reservedPercent[level] / 100
	}
	return s
}

// setPlaces sets how many requests of a level may wait. It must be called before the first acquire.
func (s *seatPool) setPlaces(n int) { s.places, s.maxQueued = n, max(minQueued, n*queuedPercent/100) }

// unreserved returns the number of seats that are not reserved.
func (s *seatPool) unreserved() int {
	n := s.limit
	for _, own := range s.reserved {
		n -= own
	}
	return n
}

// acquire takes a seat, and reports whether it has one. It blocks for maxWait at most, or until ctx
// ends, and not at all if too many requests wait. The caller must release the seat.
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

// request takes a seat or a place in the queue. It returns nil if there is neither.
func (s *seatPool) request(f flow) *seatRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f]
	if l == nil {
		l = &flowQueue{flow: f}
	}
	t := &seatRequest{granted: make(chan struct{})}
	// A flow with waiting requests has been given every seat it may have, so nobody is overtaken.
	if len(l.queue) == 0 && s.mayTake(l) {
		s.flows[f] = l
		s.grant(l, t)
		return t
	}
	most := s.maxQueued
	if s.waiting[f.level] >= s.places/2 {
		most = minQueued
	}
	if len(l.queue) >= most || s.waiting[f.level] >= s.places {
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

// mayTake reports whether a flow may have one more seat. The caller holds the lock.
func (s *seatPool) mayTake(l *flowQueue) bool {
	if l.taken >= max((s.unreserved()+s.reserved[l.level])/2, 1) {
		return false
	}
	if s.taken[l.level] < s.reserved[l.level] {
		return true
	}
	free := s.unreserved()
	for level := range priorityLevels {
		free -= max(s.taken[level]-s.reserved[level], 0)
	}
	return free > 0
}

// grant assigns a seat to a request. The caller holds the lock.
func (s *seatPool) grant(l *flowQueue, t *seatRequest) {
	l.taken++
	s.taken[l.level]++
	s.peak.add(time.Now(), 1)
	close(t.granted)
}

// cancel removes a request from its queue. It returns true if the request got a seat meanwhile.
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

// release returns a seat, and grants free seats to waiting requests.
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

// next returns the flow that gets the next free seat, or nil. The caller holds the lock.
func (s *seatPool) next() (first *flowQueue) {
	for l := range s.queued {
		if s.mayTake(l) && (first == nil || l.before(first)) {
			first = l
		}
	}
	return first
}

// before reports whether a flow gets a seat before another: by level, seats and waiting time.
func (l *flowQueue) before(other *flowQueue) bool {
	switch {
	case l.level != other.level:
		return l.level < other.level
	case l.taken != other.taken:
		return l.taken < other.taken
	}
	return l.queue[0].seq < other.queue[0].seq
}

// forgetIdle removes a flow without seats and requests. The caller holds the lock.
func (s *seatPool) forgetIdle(l *flowQueue) {
	if len(l.queue) == 0 {
		delete(s.queued, l)
		if l.queue = nil; l.taken == 0 {
			delete(s.flows, l.flow)
		}
	}
}

// counts returns how many requests of each level have a seat, and how many wait.
func (s *seatPool) counts() (taken, waiting [priorityLevels]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.waiting
}

// peakInUse returns the largest number of seats in use in the last second.
func (s *seatPool) peakInUse(at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak.max(at)
}

// peakGauge tracks the largest value of a number in this second and in the last. The owner's lock
// guards it.
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

// advance moves to the second of at.
func (p *peakGauge) advance(at time.Time) {
	switch second := at.Unix(); {
	case second == p.second:
	case second == p.second+1:
		p.second, p.perSecond = second, [2]int{p.now, p.perSecond[0]}
	default:
		p.second, p.perSecond = second, [2]int{p.now, p.now}
	}
}
