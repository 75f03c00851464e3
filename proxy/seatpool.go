package proxy

import (
	"context"
	"slices"
	"sync"
	"time"
)

// seatPool bounds how many requests run at once, and shares seats fairly. Each level has reserved
// seats, and competes for the shared ones. A request without a seat waits in the queue of its flow.
// A free seat goes to the highest level, and in it to the flow with the fewest seats. A flow has at
// most half of the seats that its level may take, so that others need not wait for its requests to
// end. In the levels whose flows are sources, each leaves others as much as it has, see leavesRoom,
// and the source for which most requests wait loses its place to one for which fewer do. It is safe
// for concurrent use and has no goroutine.
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
	// levelEveryone is for all other callers that are known.
	levelEveryone
	// levelNewTokens is for tokens that the proxy does not know yet: those of all callers after a
	// start, and made-up ones. Its flows are sources, since anybody can make up a token.
	levelNewTokens
	// levelAnonymous is for requests without a credential. It has no seats of its own, and few of the
	// shared ones. kube-apiserver does not let these requests wait with others either: it knows the
	// caller before it controls the flow. Its flows are sources.
	levelAnonymous
	priorityLevels
)

func (l priorityLevel) String() string {
	return [priorityLevels]string{"system-leases", "leases", "system", "everybody", "new-tokens", "anonymous"}[l]
}

// bySource reports whether the flows of a level are sources.
func (l priorityLevel) bySource() bool { return l >= levelNewTokens }

// reservedPercent is the percentage of seats that only the level may take. Everyone has some too,
// because anybody may request leases, which come first; and so have new tokens, since known callers
// come before them.
var reservedPercent = [priorityLevels]int{levelSystemLeases: 5, levelLeases: 5, levelSystem: 15, levelEveryone: 25, levelNewTokens: 5}

// anonymousPercent is the percentage of seats that levelAnonymous may take, and of places; it is
// one at the least.
const anonymousPercent = 5

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
		return !t.refused
	default:
	}
	timer := time.NewTimer(s.maxWait)
	defer timer.Stop()
	select {
	case <-t.granted:
		return !t.refused
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.cancel(f, t)
}

// request takes a seat or a place in the queue. It returns nil if there is neither.
func (s *seatPool) request(f flow) *seatRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f.withoutToken()]
	if l == nil {
		l = &flowQueue{flow: f.withoutToken()}
	}
	t := l.turn(f.token)
	s.seq++
	r := &seatRequest{seq: s.seq, granted: make(chan struct{})}
	// What waits could not take a seat when it came or one was released, so none of it is overtaken
	// but by another token of its source, which may have one more.
	if len(t.queue) == 0 && s.mayTake(l, t) {
		s.flows[l.flow] = l
		l.keep(t)
		s.grant(l, t, r)
		return r
	}
	if !s.mayWait(l, t) {
		return nil
	}
	s.flows[l.flow] = l
	l.push(t, r)
	s.waiting[f.level]++
	s.queued[l] = struct{}{}
	return r
}

// mayWait reports whether one more request of a turn may wait. The caller holds the lock.
func (s *seatPool) mayWait(l *flowQueue, t *turn) bool {
	places, waiting := s.places, s.waiting[l.level]
	if l.level == levelAnonymous {
		places = max(places*anonymousPercent/100, 1)
	}
	if l.level.bySource() {
		return waiting < places || s.displace(l, t)
	}
	most := s.maxQueued
	if waiting >= places/2 {
		most = minQueued
	}
	return l.queued < most && waiting < places
}

// displace refuses the newest request of the source for which most wait, and in that of the token
// for which most wait, to make place for a turn of which fewer do. It reports whether it did. The
// caller holds the lock.
func (s *seatPool) displace(l *flowQueue, t *turn) bool {
	most := l
	for other := range s.queued {
		if other.level == l.level && other.queued > max(most.queued, l.queued+1) {
			most = other
		}
	}
	victim := t
	for _, other := range most.ready {
		if len(other.queue) > len(victim.queue) || victim == t && most != l {
			victim = other
		}
	}
	if most == l && len(victim.queue) <= len(t.queue)+1 {
		return false
	}
	r := victim.queue[len(victim.queue)-1]
	most.drop(victim, r)
	s.waiting[l.level]--
	s.forgetIdle(most)
	r.refused = true
	close(r.granted)
	return true
}

// mayTake reports whether a turn of a flow may have one more seat. The caller holds the lock.
func (s *seatPool) mayTake(l *flowQueue, t *turn) bool {
	free, taken := s.unreserved(), s.taken[l.level]
	for level := range priorityLevels {
		free -= max(s.taken[level]-s.reserved[level], 0)
	}
	room := max(free, 0) + max(s.reserved[l.level]-taken, 0) // for the level
	if !l.level.bySource() {
		return room > 0 && l.taken < max((s.unreserved()+s.reserved[l.level])/2, 1)
	}
	if l.level == levelAnonymous {
		room = min(room, max(s.limit*anonymousPercent/100, 1)-taken)
	}
	return leavesRoom(l.taken, room) && leavesRoom(t.taken, room-l.taken)
}

// grant assigns a seat to a request. The caller holds the lock.
func (s *seatPool) grant(l *flowQueue, t *turn, r *seatRequest) {
	l.taken++
	t.taken++
	s.taken[l.level]++
	if s.seq++; l.level.bySource() {
		l.served = s.seq
	}
	s.peak.add(time.Now(), 1)
	close(r.granted)
}

// cancel removes a request from its queue. It returns true if the request got a seat meanwhile.
func (s *seatPool) cancel(f flow, r *seatRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.granted:
		return !r.refused
	default:
	}
	l := s.flows[f.withoutToken()]
	l.drop(l.turn(f.token), r)
	s.waiting[f.level]--
	s.forgetIdle(l)
	return false
}

// release returns a seat, and grants free seats to waiting requests.
func (s *seatPool) release(f flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f.withoutToken()]
	t := l.turn(f.token)
	l.taken--
	t.taken--
	s.taken[f.level]--
	s.peak.add(time.Now(), -1)
	l.forgetIdle(t)
	s.forgetIdle(l)
	for {
		next, t := s.next()
		if next == nil {
			return
		}
		r := next.pop(t)
		s.waiting[next.level]--
		s.grant(next, t, r)
		s.forgetIdle(next)
	}
}

// next returns the flow that gets the next free seat, and its turn; nil: none does. The caller
// holds the lock.
func (s *seatPool) next() (first *flowQueue, its *turn) {
	for l := range s.queued {
		if first != nil && !l.before(first) {
			continue
		}
		// All turns but those with seats may take one where one may, so this looks at few.
		if i := slices.IndexFunc(l.ready, func(t *turn) bool { return s.mayTake(l, t) }); i >= 0 {
			first, its = l, l.ready[i]
		}
	}
	return first, its
}

// forgetIdle removes a flow without seats and requests. The caller holds the lock.
func (s *seatPool) forgetIdle(l *flowQueue) {
	if len(l.ready) == 0 {
		delete(s.queued, l)
		if l.ready = nil; l.taken == 0 {
			delete(s.flows, l.flow)
		}
	}
}

// seat is the seat of one request. The zero value is none. Only the request's goroutine uses it.
type seat struct {
	pool *seatPool
	flow flow
}

// release returns the seat, once.
func (s *seat) release() {
	if s.pool != nil {
		s.pool.release(s.flow)
		s.pool = nil
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
