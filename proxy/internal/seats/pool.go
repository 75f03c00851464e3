package seats

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Pool bounds how many requests run at the same time, and shares its seats fairly. Its budget
// counts the seats by level and flow. A request without a seat waits in the queue of its flow. A
// free seat goes to the highest level with waiting requests, and in that level to the caller with
// the fewest seats. The tokens of one source are flows that take turns. If a level's flows are
// source addresses and its places for waiting requests are full, a new request may displace a
// waiting one. The Pool then refuses a request of the source with the most waiting requests, to
// make place for a source with fewer. Pool is safe for concurrent use and has no goroutine.
type Pool struct {
	budget    *budget.Budget
	places    int           // bounds the waiting requests of a level
	maxQueued int           // bounds the waiting requests of a flow
	maxWait   time.Duration // bounds the wait of a request

	mu      sync.Mutex
	peak    peakGauge
	waiting [Levels]int
	flows   map[Flow]*flowQueue   // the flows that have a seat or wait for one
	callers map[Flow]*callerSeats // the callers of these flows; the key is a flow without its token
	queued  map[*flowQueue]struct{}
	seq     uint64
}

const (
	// A flow may fill queuedPercent of its level's places for waiting requests, but at least minQueued
	// places. When half of the level's places are taken, a flow may have only minQueued waiting
	// requests: the other half is for flows with few requests. With the default number of places for
	// reads, 300 requests of a flow may wait. kube-apiserver also lets 300 requests of a flow wait
	// (six queues of 50), because the agents of all nodes are one user.
	minQueued     = 50
	queuedPercent = 30
)

// NewPool returns a Pool with the given number of seats. In each level, up to the given number of
// requests (places) may wait, each for at most the given time.
func NewPool(seats, places int, wait time.Duration) *Pool {
	return &Pool{
		budget: budget.New(int64(seats), levelsOf(seats)...), places: places, maxQueued: max(minQueued, places*queuedPercent/100), maxWait: wait,
		flows: map[Flow]*flowQueue{}, callers: map[Flow]*callerSeats{}, queued: map[*flowQueue]struct{}{},
	}
}

// Acquire takes a seat for a request of flow f. It blocks until a seat is free, for at most maxWait
// or until ctx ends. If too many requests wait already, Acquire does not block. Acquire returns
// false if it got no seat. If it returns true, the caller must call Release.
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

// request takes a seat, or else a place in the queue of flow f. It returns nil if neither is free.
func (s *Pool) request(f Flow) *seatRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flow(f)
	defer s.forgetIdle(l)
	s.seq++
	r := &seatRequest{seq: s.seq, granted: make(chan struct{})}
	switch {
	// A request that takes a free seat here overtakes no waiting request that could use the seat. Each
	// waiting request was refused a seat when it arrived and at each later release. There is one
	// exception: the token of a waiting request may have reached its limit although its source may
	// take one more seat. A request with another token of this source then takes the seat.
	case len(l.queue) == 0 && s.mayTake(l):
		s.grant(l, r)
	case s.mayWait(l):
		l.queue = append(l.queue, r)
		l.caller.queued++
		s.waiting[f.Level]++
		s.queued[l] = struct{}{}
	default:
		return nil
	}
	return r
}

// flow returns the state of a flow. If the flow has no seat and no waiting request, the caller must
// call forgetIdle. The caller holds the lock.
func (s *Pool) flow(f Flow) *flowQueue {
	l := s.flows[f]
	if l == nil {
		c := s.callers[f.withoutToken()]
		if c == nil {
			// The budget does not bound a share with an empty name, so the name has a prefix.
			c = &callerSeats{seats: s.budget.NewCharge(int(f.Level), "flow "+f.Caller)}
			s.callers[f.withoutToken()] = c
		}
		c.flows++
		l = &flowQueue{Flow: f, caller: c}
		s.flows[f] = l
	}
	return l
}

// mayWait reports whether flow l may have one more waiting request. The caller holds the lock.
func (s *Pool) mayWait(l *flowQueue) bool {
	places, waiting := s.places, s.waiting[l.Level]
	if most := rules[l.Level].most; most > 0 {
		places = max(places*most/100, 1)
	}
	if l.Level.BySource() {
		return waiting < places || s.displace(l)
	}
	most := s.maxQueued
	if waiting >= places/2 {
		most = minQueued
	}
	return len(l.queue) < most && waiting < places
}

// displace makes place for a request of flow l by refusing a waiting request of another flow. It
// chooses the source with the most waiting requests, and in it the token with the most, and refuses
// that token's newest request. The other source, or the other token of the same source, must have
// more waiting requests than the source or token of l (see mayDisplace). displace reports whether
// it refused a request. The caller holds the lock.
func (s *Pool) displace(l *flowQueue) bool {
	var victim *flowQueue
	for other := range s.queued {
		if l.mayDisplace(other) && (victim == nil || other.isLonger(victim)) {
			victim = other
		}
	}
	if victim == nil {
		return false
	}
	r := victim.queue[len(victim.queue)-1]
	s.drop(victim, r)
	r.refused = true
	close(r.granted)
	return true
}

// drop removes a waiting request. The caller holds the lock.
func (s *Pool) drop(l *flowQueue, r *seatRequest) {
	i := slices.Index(l.queue, r)
	l.queue = slices.Delete(l.queue, i, i+1)
	l.caller.queued--
	s.waiting[l.Level]--
	s.forgetIdle(l)
}

// mayTake reports whether flow l may take one more seat. A token leaves as many seats free for the
// other tokens of its source as it takes. The caller holds the lock.
func (s *Pool) mayTake(l *flowQueue) bool {
	if l.caller.seats.Room() <= 0 {
		return false
	}
	return !l.Level.BySource() || l.taken == 0 || l.taken < s.Room(l.Level)-l.caller.taken()
}

// Room returns how many more seats a level may take.
func (s *Pool) Room(l Level) int { return int(s.budget.Room(int(l))) }

// grant assigns a seat to a request. The caller holds the lock.
func (s *Pool) grant(l *flowQueue, r *seatRequest) {
	l.caller.seats.Add(1)
	l.taken++
	if s.seq++; l.Level.BySource() {
		l.served, l.caller.served = s.seq, s.seq
	}
	s.peak.add(time.Now(), 1)
	close(r.granted)
}

// cancel removes a request from its queue. It returns true if the request has got a seat in the
// meantime.
func (s *Pool) cancel(f Flow, r *seatRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.granted:
		return !r.refused
	default:
	}
	s.drop(s.flows[f], r)
	return false
}

// Release returns a seat of flow f, and grants free seats to waiting requests.
func (s *Pool) Release(f Flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.flows[f]
	l.caller.seats.Add(-1)
	l.taken--
	s.peak.add(time.Now(), -1)
	s.forgetIdle(l)
	for next := s.next(); next != nil; next = s.next() {
		r := next.queue[0]
		s.grant(next, r)
		s.drop(next, r)
	}
}

// next returns the flow that gets the next free seat, or nil if no waiting request may have one.
// The caller holds the lock.
func (s *Pool) next() (first *flowQueue) {
	for l := range s.queued {
		if (first == nil || l.before(first)) && s.mayTake(l) {
			first = l
		}
	}
	return first
}

// forgetIdle removes a flow that has neither seats nor waiting requests. The caller holds the lock.
func (s *Pool) forgetIdle(l *flowQueue) {
	if len(l.queue) > 0 {
		return
	}
	l.queue = nil
	delete(s.queued, l)
	if l.taken > 0 {
		return
	}
	delete(s.flows, l.Flow)
	if l.caller.flows--; l.caller.flows == 0 {
		delete(s.callers, l.withoutToken())
	}
}

// Seat is the seat of one request. The zero value is no seat. Only the request's goroutine uses it.
type Seat struct {
	Pool *Pool
	Flow Flow
}

// Release returns the seat. A second call does nothing.
func (s *Seat) Release() {
	if s.Pool != nil {
		s.Pool.Release(s.Flow)
		s.Pool = nil
	}
}

// Counts returns how many requests of each level have a seat, and how many wait for one.
func (s *Pool) Counts() (taken, waiting [Levels]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for level, u := range s.budget.Usage() {
		taken[level] = int(u.Used)
	}
	return taken, s.waiting
}

// PeakInUse returns the largest number of seats that were in use at the same time. It considers the
// second of the given time (at), and the second before it.
func (s *Pool) PeakInUse(at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak.max(at)
}

// peakGauge tracks the largest value of a number in the current and the previous second. The lock
// of its owner guards it.
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

// advance starts a new second if the given time (at) is after p.second.
func (p *peakGauge) advance(at time.Time) {
	switch second := at.Unix(); {
	case second == p.second:
	case second == p.second+1:
		p.second, p.perSecond = second, [2]int{p.now, p.perSecond[0]}
	default:
		p.second, p.perSecond = second, [2]int{p.now, p.now}
	}
}

// flowQueue is the state of one flow. The lock of its Pool guards it.
type flowQueue struct {
	Flow
	caller *callerSeats
	taken  int
	queue  []*seatRequest // Pool.mayWait bounds it
	served uint64         // sequence number of the last grant; only in levels by source
}

// callerSeats sums up the flows of one caller in one level: one flow, or the flows of all tokens of
// a source.
type callerSeats struct {
	seats  *budget.Charge
	flows  int    // number of flowQueues
	queued int    // number of waiting requests
	served uint64 // the last grant of any of the flows
}

// taken returns the number of the caller's seats.
func (c *callerSeats) taken() int { return int(c.seats.Bytes()) }

// seatRequest is a request for a seat.
type seatRequest struct {
	seq     uint64
	granted chan struct{} // closed when the seat is granted or refused
	refused bool          // another request took its place; written before granted is closed
}

// before reports whether flow l gets a seat before the other flow. It compares their levels first,
// and then the numbers of seats that their callers have. After that, in levels by source, it
// compares the last grants of the callers, oldest first. Last it compares the turns of the flows.
func (l *flowQueue) before(other *flowQueue) bool {
	switch c, o := l.caller, other.caller; {
	case l.Level != other.Level:
		return l.Level < other.Level
	case c.taken() != o.taken():
		return c.taken() < o.taken()
	case c.served != o.served:
		return c.served < o.served
	}
	return l.turn() < other.turn()
}

// turn orders the flows of one caller, lowest first. It is the sequence number of the flow's oldest
// waiting request, or of the flow's last grant if that number is higher. So in a level by source, a
// flow that gets a seat goes behind the other waiting flows.
func (l *flowQueue) turn() uint64 { return max(l.queue[0].seq, l.served) }

// mayDisplace reports whether a request of l may take the place of a waiting request of another
// flow. It may if the other source still has more waiting requests afterwards. If both flows have
// the same source, the other token must still have more.
func (l *flowQueue) mayDisplace(other *flowQueue) bool {
	if l.caller == other.caller {
		return len(other.queue) > len(l.queue)+1
	}
	return l.Level == other.Level && other.caller.queued > l.caller.queued+1
}

// isLonger reports whether more requests of l's caller wait than of the other flow's caller. If the
// numbers are equal, it compares the numbers of requests that wait in the two flows.
func (l *flowQueue) isLonger(other *flowQueue) bool {
	if l.caller.queued != other.caller.queued {
		return l.caller.queued > other.caller.queued
	}
	return len(l.queue) > len(other.queue)
}
