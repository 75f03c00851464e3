package proxy

import (
	"context"
	"sync"
	"time"
)

// class is the priority of a request. Lower ones come first.
type class int

const (
	// leases are those of coordination.k8s.io: one that is not renewed in time costs a leader its office, and a node its pods.
	leases class = iota
	// system are the callers that a cluster is run by.
	system
	// everybody are all others.
	everybody
	classes
)

func (c class) String() string { return [classes]string{"leases", "system", "everybody"}[c] }

// ownShare is how many of a hundred seats nobody but the class may take. Everybody has some too: anybody may ask for leases, and come first.
var ownShare = [classes]int{leases: 5, system: 20, everybody: 25}

const (
	defaultReadOnly = 1000
	defaultMutating = 200
	// maxLine bounds the requests of one flow that wait for a seat. Those of a class are bounded by the number of seats.
	maxLine = 50
)

// flow is whose requests share seats with others by turns: those of one caller, in one class.
type flow struct {
	class class
	key   string
}

// seats bounds the requests of one kind that are under way at once, and shares them fairly. Each class has seats of its own, and takes of the
// common ones beyond that. A request without a seat waits for one in the line of its flow; a seat that becomes free goes to the highest
// class, and in it to the flow that has the fewest seats. One flow never has more than half of the seats that its class may take, so that
// others need not wait until its requests have ended. Safe for concurrent use; it has no goroutine.
type seats struct {
	limit int
	wait  time.Duration // for how long a request waits
	own   [classes]int

	mu      sync.Mutex
	peaks   peaks
	taken   [classes]int
	waiting [classes]int
	lines   map[flow]*line // those that have a seat or wait for one
	hungry  map[*line]struct{}
	seq     uint64
}

// line is one flow.
type line struct {
	flow
	taken int
	queue []*ticket // maxLine at most
}

// ticket is a request that waits.
type ticket struct {
	seq     uint64
	granted chan struct{} // closed with a seat
}

func newSeats(limit int, wait time.Duration) *seats {
	s := &seats{limit: limit, wait: wait, lines: map[flow]*line{}, hungry: map[*line]struct{}{}}
	for c := range classes {
		s.own[c] = limit * ownShare[c] / 100
	}
	return s
}

// common returns how many seats no class has for its own.
func (s *seats) common() int {
	n := s.limit
	for _, own := range s.own {
		n -= own
	}
	return n
}

// enter takes a seat, and reports whether it has one. It waits for one no longer than s.wait or ctx, and not at all where too many wait
// already. Who has a seat must leave.
func (s *seats) enter(ctx context.Context, f flow) bool {
	t := s.ask(f)
	if t == nil {
		return false
	}
	select {
	case <-t.granted:
		return true
	default:
	}
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case <-t.granted:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return s.giveUp(f, t)
}

// ask takes a seat or a place in the line; nil: there is neither.
func (s *seats) ask(f flow) *ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[f]
	if l == nil {
		l = &line{flow: f}
	}
	t := &ticket{granted: make(chan struct{})}
	// Whoever waits and could have a seat has been given one, so that nobody is passed by.
	if len(l.queue) == 0 && s.may(l) {
		s.lines[f] = l
		s.give(l, t)
		return t
	}
	if len(l.queue) >= maxLine || s.waiting[f.class] >= s.limit {
		return nil
	}
	s.seq++
	t.seq = s.seq
	s.lines[f] = l
	l.queue = append(l.queue, t)
	s.waiting[f.class]++
	s.hungry[l] = struct{}{}
	return t
}

// may reports whether a flow may have one more seat. The lock is held.
func (s *seats) may(l *line) bool {
	if l.taken >= max((s.common()+s.own[l.class])/2, 1) {
		return false
	}
	if s.taken[l.class] < s.own[l.class] {
		return true
	}
	free := s.common()
	for c := range classes {
		free -= max(s.taken[c]-s.own[c], 0)
	}
	return free > 0
}

// give gives a seat to a request of a flow. The lock is held.
func (s *seats) give(l *line, t *ticket) {
	l.taken++
	s.taken[l.class]++
	s.peaks.change(time.Now(), 1)
	close(t.granted)
}

// giveUp takes a request out of its line. It returns true if the request has been given a seat meanwhile.
func (s *seats) giveUp(f flow, t *ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.granted:
		return true
	default:
	}
	l := s.lines[f]
	for i := range l.queue {
		if l.queue[i] == t {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			break
		}
	}
	s.waiting[f.class]--
	s.settle(l)
	return false
}

// leave gives a seat back, and to whoever is next.
func (s *seats) leave(f flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[f]
	l.taken--
	s.taken[f.class]--
	s.peaks.change(time.Now(), -1)
	s.settle(l)
	for {
		next := s.next()
		if next == nil {
			return
		}
		t := next.queue[0]
		next.queue = next.queue[1:]
		s.waiting[next.class]--
		s.give(next, t)
		s.settle(next)
	}
}

// next returns the flow that is to have a free seat; nil: none may. The lock is held.
func (s *seats) next() (first *line) {
	for l := range s.hungry {
		if s.may(l) && (first == nil || l.before(first)) {
			first = l
		}
	}
	return first
}

// before reports whether a flow is to have a seat before another: by class, by the seats that it has, and by how long it has waited.
func (l *line) before(other *line) bool {
	switch {
	case l.class != other.class:
		return l.class < other.class
	case l.taken != other.taken:
		return l.taken < other.taken
	}
	return l.queue[0].seq < other.queue[0].seq
}

// settle forgets a flow that needs not be remembered. The lock is held.
func (s *seats) settle(l *line) {
	if len(l.queue) == 0 {
		delete(s.hungry, l)
		if l.queue = nil; l.taken == 0 {
			delete(s.lines, l.flow)
		}
	}
}

// seated returns how many requests have a seat.
func (s *seats) seated() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taken := range s.taken {
		n += taken
	}
	return n
}

// counts returns how many requests of each class have a seat, and how many wait.
func (s *seats) counts() (taken, waiting [classes]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.waiting
}

// peak returns the most requests that had a seat at once in the last second.
func (s *seats) peak(at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peaks.most(at)
}

// peaks remembers the most that a number was in this second and in the one before. A lock of its owner's guards it.
type peaks struct {
	now    int
	second int64 // Unix
	of     [2]int
}

func (p *peaks) change(at time.Time, by int) {
	p.turn(at)
	p.now += by
	p.of[0] = max(p.of[0], p.now)
}

func (p *peaks) most(at time.Time) int {
	p.turn(at)
	return max(p.of[0], p.of[1])
}

// turn begins a new second.
func (p *peaks) turn(at time.Time) {
	switch second := at.Unix(); {
	case second == p.second:
	case second == p.second+1:
		p.second, p.of = second, [2]int{p.now, p.of[0]}
	default:
		p.second, p.of = second, [2]int{p.now, p.now}
	}
}
