package seats

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Pool bounds how many requests run at once, and shares seats fairly. Its budget has the seats by
// level and flow. A request without a seat waits in the queue of its flow. A free seat goes to the
// highest level, and in it to the flow with the fewest seats. In the levels whose flows are
// sources, the source for which most requests wait loses its place to one for which fewer do. It is
// safe for concurrent use and has no goroutine.
type Pool struct {
	budget    *budget.Budget
	places    int           // bounds the waiting requests of a level
	maxQueued int           // bounds those of a flow
	maxWait   time.Duration // bounds the wait of a request

	mu      sync.Mutex
	peak    peakGauge
	waiting [Levels]int
	flows   map[Flow]*flowQueue // those that have a seat or wait for one
	queued  map[*flowQueue]struct{}
	seq     uint64
}

const (
	// One flow may have queuedPercent of the places waiting, but at least minQueued. Once half of
	// the level's places are taken, it may have minQueued: the other half is for flows with few
	// requests. With the default of places for reads 300 of a flow wait, as in kube-apiserver,
	// where a flow has six queues of 50: the agents of all nodes are one user.
	minQueued     = 50
	queuedPercent = 30
)

// NewPool returns a Pool of a number of seats. In each level as many requests as places may wait,
// each for a bounded time.
func NewPool(seats, places int, wait time.Duration) *Pool {
	return &Pool{
		budget: budget.New(int64(seats), levelsOf(seats)...), places: places, maxQueued: max(minQueued, places*queuedPercent/100), maxWait: wait,
		flows: map[Flow]*flowQueue{}, queued: map[*flowQueue]struct{}{},
	}
}

// Acquire takes a seat, and reports whether it has one. It blocks for maxWait at most, or until ctx
// ends, and not at all if too many requests wait. The caller must release the seat.
func (s *Pool) Acquire(ctx context.Context, f Flow) bool {
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
func (s *Pool) request(f Flow) *seatRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f.withoutToken()]
	if l == nil {
		// The share "" would have no bound.
		l = &flowQueue{Flow: f.withoutToken(), seats: s.budget.NewCharge(int(f.Level), "flow "+f.Caller)}
	}
	t := l.turn(f.Token)
	s.seq++
	r := &seatRequest{seq: s.seq, granted: make(chan struct{})}
	// What waits could not take a seat when it came or one was released, so none of it is overtaken
	// but by another token of its source, which may have one more.
	if len(t.queue) == 0 && s.mayTake(l, t) {
		s.flows[l.Flow] = l
		l.keep(t)
		s.grant(l, t, r)
		return r
	}
	if !s.mayWait(l, t) {
		return nil
	}
	s.flows[l.Flow] = l
	l.push(t, r)
	s.waiting[f.Level]++
	s.queued[l] = struct{}{}
	return r
}

// mayWait reports whether one more request of a turn may wait. The caller holds the lock.
func (s *Pool) mayWait(l *flowQueue, t *turn) bool {
	places, waiting := s.places, s.waiting[l.Level]
	if most := rules[l.Level].most; most > 0 {
		places = max(places*most/100, 1)
	}
	if l.Level.BySource() {
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
func (s *Pool) displace(l *flowQueue, t *turn) bool {
	most := l
	for other := range s.queued {
		if other.Level == l.Level && other.queued > max(most.queued, l.queued+1) {
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
	s.waiting[l.Level]--
	s.forgetIdle(most)
	r.refused = true
	close(r.granted)
	return true
}

// mayTake reports whether a turn of a flow may have one more seat. Each token of a source leaves
// its other tokens as many seats as it has. The caller holds the lock.
func (s *Pool) mayTake(l *flowQueue, t *turn) bool {
	if l.seats.Room() <= 0 {
		return false
	}
	return !l.Level.BySource() || t.taken == 0 || t.taken < s.Room(l.Level)-l.taken()
}

// Room returns how many more seats a level may take.
func (s *Pool) Room(l Level) int { return int(s.budget.Room(int(l))) }

// grant assigns a seat to a request. The caller holds the lock.
func (s *Pool) grant(l *flowQueue, t *turn, r *seatRequest) {
	l.seats.Add(1)
	t.taken++
	if s.seq++; l.Level.BySource() {
		l.served = s.seq
	}
	s.peak.add(time.Now(), 1)
	close(r.granted)
}

// cancel removes a request from its queue. It returns true if the request got a seat meanwhile.
func (s *Pool) cancel(f Flow, r *seatRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.granted:
		return !r.refused
	default:
	}
	l := s.flows[f.withoutToken()]
	l.drop(l.turn(f.Token), r)
	s.waiting[f.Level]--
	s.forgetIdle(l)
	return false
}

// Release returns a seat, and grants free seats to waiting requests.
func (s *Pool) Release(f Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f.withoutToken()]
	t := l.turn(f.Token)
	l.seats.Add(-1)
	t.taken--
	s.peak.add(time.Now(), -1)
	l.forgetIdle(t)
	s.forgetIdle(l)
	for {
		next, t := s.next()
		if next == nil {
			return
		}
		r := next.pop(t)
		s.waiting[next.Level]--
		s.grant(next, t, r)
		s.forgetIdle(next)
	}
}

// next returns the flow that gets the next free seat, and its turn; nil: none does. The caller
// holds the lock.
func (s *Pool) next() (first *flowQueue, its *turn) {
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
func (s *Pool) forgetIdle(l *flowQueue) {
	if len(l.ready) == 0 {
		delete(s.queued, l)
		if l.ready = nil; l.taken() == 0 {
			delete(s.flows, l.Flow)
		}
	}
}

// Seat is the seat of one request. The zero value is none. Only the request's goroutine uses it.
type Seat struct {
	Pool *Pool
	Flow Flow
}

// Release returns the seat, once.
func (s *Seat) Release() {
	if s.Pool != nil {
		s.Pool.Release(s.Flow)
		s.Pool = nil
	}
}

// Counts returns how many requests of each level have a seat, and how many wait.
func (s *Pool) Counts() (taken, waiting [Levels]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for level, u := range s.budget.Usage() {
		taken[level] = int(u.Used)
	}
	return taken, s.waiting
}

// PeakInUse returns the largest number of seats in use in the last second.
func (s *Pool) PeakInUse(at time.Time) int {
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
