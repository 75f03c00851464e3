package watchcache

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pace gives each write to a client its time, so that one that takes nothing at all does not hold a goroutine for ever. A write only
// notes when it began; one timer for all looks at them. A writer that knows no deadlines (in a test) needs none.
type pace struct {
	all     *paces
	control *http.ResponseController
	since   atomic.Int64 // when the write that is under way began, in Unix nanoseconds; 0: there is none
	from    atomic.Pointer[changes]

	mu      sync.Mutex
	limited bool // there is a deadline
	ended   bool // nobody may touch the writer any more: net/http's for HTTP/2 panics
}

const (
	// closeGrace is what a write gets once the cache is closed, and drainGrace once the watches are to have ended: a host that has much to do,
	// as when all clients of a replica come to another one, is slow, and who is cut off lists again.
	closeGrace = time.Second
	drainGrace = 10 * time.Second
	// looks is how often a write is looked at during the time that it has.
	looks = 8
)

// paces are the bodies that are being written. A timer runs while there are any, and to its end: to stop and start it for each would
// cost more than to look in vain. Safe for concurrent use.
type paces struct {
	stall   time.Duration
	stalled *atomic.Uint64 // counts writes that took too long

	grace atomic.Int64 // what a write gets once this is closed, in nanoseconds; 0: it is not

	mu    sync.Mutex
	open  map[*pace]struct{} // as many as there are requests
	timer *time.Timer        // nil: not running
}

func (ps *paces) start(w http.ResponseWriter) *pace {
	p := &pace{all: ps, control: http.NewResponseController(w)}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.open == nil {
		ps.open = map[*pace]struct{}{}
	}
	ps.open[p] = struct{}{}
	if ps.timer == nil {
		ps.timer = time.AfterFunc(ps.stall/looks, ps.look)
	}
	return p
}

// look ends the writes that take too long.
func (ps *paces) look() {
	now := time.Now()
	for _, p := range ps.since(now.Add(-ps.stall)) {
		if p.limit(now.Add(-time.Second)) {
			ps.stalled.Add(1)
		}
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.timer = nil; len(ps.open) > 0 {
		ps.timer = time.AfterFunc(ps.stall/looks, ps.look)
	}
}

// since are those whose write began before then.
func (ps *paces) since(then time.Time) (out []*pace) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.open {
		if since := p.since.Load(); since != 0 && since <= then.UnixNano() {
			out = append(out, p)
		}
	}
	return out
}

// stuckAfter is how long a write is under way that is taken for one to a client that takes nothing.
const stuckAfter = time.Second

// shed ends the writes of watchers that take nothing at the moment, those that are furthest behind first, n at most. It returns how many.
func (ps *paces) shed(n int) (ended int) {
	type late struct {
		*pace
		by int
	}
	var all []late
	now := time.Now()
	for _, p := range ps.since(now.Add(-stuckAfter)) {
		if from := p.from.Load(); from != nil {
			if by := (*from).behind(); by > 0 {
				all = append(all, late{p, by})
			}
		}
	}
	slices.SortFunc(all, func(a, b late) int { return b.by - a.by })
	for _, l := range all[:min(n, len(all))] {
		if l.limit(now.Add(-time.Second)) {
			ps.stalled.Add(1)
			ended++
		}
	}
	return ended
}

// close gives writes, those under way and those to come, no more time than that.
func (ps *paces) close(grace time.Duration) {
	if had := ps.grace.Load(); had == 0 || int64(grace) < had {
		ps.grace.Store(int64(grace))
	}
	ps.mu.Lock()
	ps.settle()
	ps.mu.Unlock()
	for _, p := range ps.since(time.Now()) {
		p.limit(time.Now().Add(grace))
	}
}

// settle stops the timer when nothing is being written and nothing is to come. The lock is held.
func (ps *paces) settle() {
	if ps.grace.Load() != 0 && len(ps.open) == 0 && ps.timer != nil && ps.timer.Stop() {
		ps.timer = nil
	}
}

// limit sets a deadline. It returns false if the request has ended.
func (p *pace) limit(deadline time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.limited = true
	_ = p.control.SetWriteDeadline(deadline)
	return true
}

// begin comes before a write.
func (p *pace) begin() {
	now := time.Now()
	p.since.Store(now.UnixNano())
	if grace := p.all.grace.Load(); grace != 0 {
		p.limit(now.Add(time.Duration(grace)))
	}
}

// rest comes when nothing is being written, which may go on for as long as it likes.
func (p *pace) rest() { p.since.Store(0) }

// end comes last. A later request on the connection has its own pace.
func (p *pace) end() {
	p.all.mu.Lock()
	delete(p.all.open, p)
	p.all.settle()
	p.all.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.limited {
		_ = p.control.SetWriteDeadline(time.Time{})
	}
}
