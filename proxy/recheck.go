package proxy

import (
	"container/list"
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// rechecks asks again and again whether the callers of watches may still have them. It asks about callers and permissions, not about watches:
// those of one caller by one permission share a question. Questions are asked one after another, spread evenly: each once in Options.Recheck,
// by recheckRate a second at most. Where that many cannot be asked in this time they are asked less often, but never less than once in
// Options.RecheckMax; where even that takes more a second, they are. It has a timer, and a goroutine for each question that is being asked,
// of which there are maxRechecks at most. Safe for concurrent use.
type rechecks struct {
	period, most, grace time.Duration
	ask                 asker
	ctx                 context.Context // ends what is being asked
	cancel              context.CancelFunc
	running             sync.WaitGroup

	tokens, permissions atomic.Uint64 // questions asked

	mu        sync.Mutex
	questions map[questionID]*recheck // as many as two for each watch
	due       list.List               // of *recheck; the first was asked longest ago
	doubted   list.List               // of *recheck that got a no, in the order in which they are asked again
	asking    map[*recheck]struct{}
	last      time.Time // when the last question was asked
	timer     *time.Timer
	closed    bool
}

const (
	// recheckRate is how many questions are asked in a second, as long as that suffices.
	recheckRate = 20
	// maxRechecks bounds the questions that are being asked.
	maxRechecks = 64
	// inTime is the part of a period, in eighths, in which all questions are asked, so that none is late.
	inTime = 7
	// confirmAfter is when a no is asked about again, where other questions leave the time: an API server that has just started may not have
	// loaded its rules.
	confirmAfter = 5 * time.Second
)

// asker asks a question. who is the caller as far as is known, and so is what it returns.
type asker func(ctx context.Context, q *recheck, who user.Info) (user.Info, verdict)

func newRechecks(period, most, grace time.Duration, ask asker) *rechecks {
	c := &rechecks{period: period, most: max(most, period), grace: grace, ask: ask, questions: map[questionID]*recheck{}, asking: map[*recheck]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

type questionID [sha256.Size]byte

// bearer is a caller as the questions know it.
type bearer struct {
	id    [sha256.Size]byte // of the token, or of the certificate
	token bool
	r     *http.Request // with what the caller shows; nil in tests
}

// recheck is a question: whom a token is of, or whether a caller has a permission.
type recheck struct {
	id     questionID
	bearer bearer
	action *action // nil: whose token it is

	// Guarded by the rechecks' lock.
	who     user.Info
	watches map[*guard]struct{}
	in      *list.List // where it waits; nil while it is being asked
	at      *list.Element
	asked   time.Time
	again   time.Time // of one that is doubted
	conviction
}

// guard is one watch whose caller is asked about.
type guard struct {
	of   *rechecks
	end  func()
	part *action // what the watch needs, where its question is about more; nil: the same

	questions []*recheck // guarded by the rechecks' lock; two at most

	mu   sync.Mutex
	gone bool
}

// watch begins to ask about a watch. by is the permission by which the caller has it, part what it needs of that, or nil. confirmed says that the
// upstream has just said so. end is called once, if the caller may not have it any more, and not after guard.leave.
func (c *rechecks) watch(b bearer, who user.Info, by, part *action, confirmed bool, end func()) *guard {
	g := &guard{of: c, end: end, part: part}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if b.token {
		c.join(g, b, who, nil, now, confirmed)
	}
	c.join(g, b, who, by, now, confirmed)
	c.arm(now)
	return g
}

// join adds a watch to a question. The lock is held.
func (c *rechecks) join(g *guard, b bearer, who user.Info, about *action, now time.Time, confirmed bool) *recheck {
	id := questionID(b.id)
	if about != nil {
		of := about.digest(who)
		id = sha256.Sum256(append(b.id[:], of[:]...))
	}
	q := c.questions[id]
	if q == nil {
		if len(c.questions) == 0 {
			c.last = now // the first is asked in its turn too
		}
		q = &recheck{id: id, bearer: b, action: about, who: who, watches: map[*guard]struct{}{}, asked: now}
		c.questions[id] = q
		c.wait(q, &c.due)
	}
	if confirmed {
		q.confirmed = now
	}
	q.watches[g] = struct{}{}
	g.questions = append(g.questions, q)
	return q
}

// wait puts a question at the end of a list. The lock is held.
func (c *rechecks) wait(q *recheck, in *list.List) { q.in, q.at = in, in.PushBack(q) }

// take takes a question out of its list. The lock is held.
func (q *recheck) take() {
	if q.in != nil {
		q.in.Remove(q.at)
		q.in, q.at = nil, nil
	}
}

// leave ends the asking about a watch. It waits for an end that is under way, and there is none after it.
func (g *guard) leave() {
	g.mu.Lock()
	g.gone = true
	g.mu.Unlock()
	c := g.of
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range g.questions {
		if delete(q.watches, g); len(q.watches) == 0 {
			c.forget(q)
		}
	}
	g.questions = nil
	c.arm(time.Now())
}

// revoke ends the watch.
func (g *guard) revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		g.gone = true
		g.end()
	}
}

// forget asks no more. The lock is held.
func (c *rechecks) forget(q *recheck) {
	q.take()
	if c.questions[q.id] == q {
		delete(c.questions, q.id)
	}
}

// cycle returns the time in which all questions are asked once. The lock is held.
func (c *rechecks) cycle() time.Duration {
	enough := time.Duration(len(c.questions)) * time.Second / recheckRate
	return min(max(enough, c.period/8*inTime), c.most/8*inTime)
}

// next returns the question that is to be asked next, and when; nil: there is none. The lock is held.
func (c *rechecks) next() (q *recheck, at time.Time) {
	n := len(c.questions)
	if n == 0 {
		return nil, at
	}
	cycle := c.cycle()
	step := cycle / time.Duration(n)
	soonest := c.last.Add(min(step, time.Second/recheckRate))
	if e := c.due.Front(); e != nil {
		q = e.Value.(*recheck)
		if at = q.asked.Add(cycle); c.last.Add(step).Before(at) { // in turn, and at the latest when it must be
			at = c.last.Add(step)
		}
	}
	if e := c.doubted.Front(); e != nil {
		if d := e.Value.(*recheck); q == nil || d.again.Before(at) {
			q, at = d, d.again
		}
	}
	if at.Before(soonest) {
		at = soonest
	}
	return q, at
}

// arm sets the timer. The lock is held.
func (c *rechecks) arm(now time.Time) {
	q, at := c.next()
	if q == nil || c.closed || len(c.asking) >= maxRechecks {
		if c.timer != nil {
			c.timer.Stop()
		}
		return
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(at.Sub(now), c.fire)
		return
	}
	c.timer.Reset(at.Sub(now))
}

// fire asks the next question, in a goroutine of its own.
func (c *rechecks) fire() {
	q, who := c.begin()
	if q == nil {
		return
	}
	defer c.running.Done()
	who, v := c.ask(c.ctx, q, who)
	for _, g := range c.conclude(q, who, v, time.Now()) {
		g.revoke()
	}
}

// begin takes the next question, if its time has come.
func (c *rechecks) begin() (*recheck, user.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	q, at := c.next()
	if q == nil || c.closed || len(c.asking) >= maxRechecks || at.After(now) {
		c.arm(now)
		return nil, nil
	}
	q.take()
	q.asked, c.last = now, now
	c.asking[q] = struct{}{}
	c.running.Add(1)
	if q.action == nil {
		c.tokens.Add(1)
	} else {
		c.permissions.Add(1)
	}
	c.arm(now)
	return q, q.who
}

// conclude takes an answer, and returns the watches that it ends.
func (c *rechecks) conclude(q *recheck, who user.Info, v verdict, now time.Time) (ended []*guard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.arm(now) }()
	delete(c.asking, q)
	if c.questions[q.id] != q { // the last watch has left meanwhile
		return nil
	}
	if q.action == nil && who != nil {
		c.meet(q, who)
	}
	switch keeps := q.keeps(v, now, c.grace, c.most); {
	case !keeps:
		return c.give(q, v, now)
	case v == no:
		q.again = now.Add(min(confirmAfter, c.period))
		c.wait(q, &c.doubted)
	default:
		c.wait(q, &c.due)
	}
	return nil
}

// meet notes whom a token is of, for the questions about what they may do: their groups may have changed. The lock is held.
func (c *rechecks) meet(token *recheck, who user.Info) {
	for g := range token.watches {
		for _, q := range g.questions {
			q.who = who
		}
	}
}

// give gives up a question, and returns the watches that end. Those that need only a part of what was denied are asked about for that. The lock
// is held.
func (c *rechecks) give(q *recheck, v verdict, now time.Time) (ended []*guard) {
	c.forget(q)
	for g := range q.watches {
		if g.part == nil || q.action == nil || v != no {
			ended = append(ended, g)
			continue
		}
		part := g.part
		g.part = nil
		for i := range g.questions {
			if g.questions[i] == q {
				g.questions = append(g.questions[:i], g.questions[i+1:]...)
				break
			}
		}
		next := c.join(g, q.bearer, q.who, part, now, false)
		if next.confirmed.Before(q.confirmed) {
			next.confirmed = q.confirmed
		}
		if next.in == &c.due && !next.doubted {
			next.take()
			next.doubted, next.again = true, now
			c.wait(next, &c.doubted)
			c.doubted.MoveToFront(next.at)
		}
	}
	return ended
}

// close ends the asking, and waits for what is being asked.
func (c *rechecks) close() {
	c.mu.Lock()
	c.closed = true
	c.arm(time.Now())
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// age returns how long ago the question was asked that has waited longest.
func (c *rechecks) age(now time.Time) (age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(q *recheck) { age = max(age, now.Sub(q.asked)) }
	for _, l := range []*list.List{&c.due, &c.doubted} {
		if e := l.Front(); e != nil {
			note(e.Value.(*recheck))
		}
	}
	for q := range c.asking {
		note(q)
	}
	return age
}

// count returns how many questions there are, and in what time each is asked once.
func (c *rechecks) count() (n int, cycle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.questions), c.cycle()
}
