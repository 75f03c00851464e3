package proxy

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
)

// rechecker asks again and again whether the callers of watches may still have them. It asks about
// callers and permissions, not about watches: those of one caller by one permission share a
// question. Questions are asked one after another, spread evenly: each once in Options.Recheck, by
// recheckRate a second at most. Where that many cannot be asked in this time they are asked less
// often, but never less than once in Options.RecheckMax; where even that takes more a second, they
// are. It has a timer, and a goroutine for each question that is being asked, of which there are
// maxConcurrentRechecks at most. Safe for concurrent use.
type rechecker struct {
	period, maxPeriod, grace time.Duration
	ask                      asker
	ctx                      context.Context // ends what is being asked
	cancel                   context.CancelFunc
	running                  sync.WaitGroup

	tokens, permissions atomic.Uint64 // questions asked

	mu        sync.Mutex
	questions map[questionID]*recheckQuestion // as many as two for each watch
	due       list.List                       // of *recheck; the first was asked longest ago
	denied    list.List                       // of *recheck that got a no, in the order in which they are asked again
	asking    map[*recheckQuestion]struct{}
	last      time.Time // when the last question was asked
	timer     *time.Timer
	closed    bool
}

const (
	// recheckRate is how many questions are asked in a second, as long as that suffices.
	recheckRate = 20
	// maxConcurrentRechecks bounds the questions that are being asked.
	maxConcurrentRechecks = 64
	// cycleEighths is the part of a period, in eighths, in which all questions are asked, so that
	// none is late.
	cycleEighths = 7
	// confirmDelay is when a no is asked about again, where other questions leave the time: an API
	// server that has just started may not have loaded its rules.
	confirmDelay = 5 * time.Second
)

// asker asks a question. who is the caller as far as is known, and so is what it returns.
type asker func(ctx context.Context, q *recheckQuestion, who user.Info) (user.Info, decision)

func newRechecker(period, most, grace time.Duration, ask asker) *rechecker {
	c := &rechecker{period: period, maxPeriod: max(most, period), grace: grace, ask: ask, questions: map[questionID]*recheckQuestion{}, asking: map[*recheckQuestion]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// recheckedWatch is one watch whose caller is asked about.
type recheckedWatch struct {
	rechecker *rechecker
	end       func()
	fallback  *action // what the watch needs, where its question is about more; nil: the same

	questions []*recheckQuestion // guarded by the rechecks' lock; two at most

	mu    sync.Mutex
	ended bool
}

// watch begins to ask about a watch. by is the permission by which the caller has it, part what it
// needs of that, or nil. confirmed says that the upstream has just said so. end is called once, if
// the caller may not have it any more, and not after guard.leave.
func (c *rechecker) watch(b credential, who user.Info, by, part *action, confirmed bool, end func()) *recheckedWatch {
	g := &recheckedWatch{rechecker: c, end: end, fallback: part}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if b.token {
		c.join(g, b, who, nil, now, confirmed)
	}
	c.join(g, b, who, by, now, confirmed)
	c.resetTimer(now)
	return g
}

// join adds a watch to a question. The lock is held.
func (c *rechecker) join(g *recheckedWatch, b credential, who user.Info, about *action, now time.Time, confirmed bool) *recheckQuestion {
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
		q = &recheckQuestion{id: id, credential: b, action: about, who: who, watches: map[*recheckedWatch]struct{}{}, asked: now}
		c.questions[id] = q
		c.enqueue(q, &c.due)
	}
	if confirmed {
		q.confirmed = now
	}
	q.watches[g] = struct{}{}
	g.questions = append(g.questions, q)
	return q
}

// enqueue puts a question at the end of a list. The lock is held.
func (c *rechecker) enqueue(q *recheckQuestion, in *list.List) {
	q.list, q.element = in, in.PushBack(q)
}

// leave ends the asking about a watch. It waits for an end that is under way, and there is none
// after it.
func (g *recheckedWatch) leave() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	c := g.rechecker
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range g.questions {
		if delete(q.watches, g); len(q.watches) == 0 {
			c.forget(q)
		}
	}
	g.questions = nil
	c.resetTimer(time.Now())
}

// revoke ends the watch.
func (g *recheckedWatch) revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.ended = true
		g.end()
	}
}

// forget asks no more. The lock is held.
func (c *rechecker) forget(q *recheckQuestion) {
	q.unlist()
	if c.questions[q.id] == q {
		delete(c.questions, q.id)
	}
}

// cycle returns the time in which all questions are asked once. The lock is held.
func (c *rechecker) cycle() time.Duration {
	enough := time.Duration(len(c.questions)) * time.Second / recheckRate
	return min(max(enough, c.period/8*cycleEighths), c.maxPeriod/8*cycleEighths)
}

// next returns the question that is to be asked next, and when; nil: there is none. The lock is
// held.
func (c *rechecker) next() (q *recheckQuestion, at time.Time) {
	n := len(c.questions)
	if n == 0 {
		return nil, at
	}
	cycle := c.cycle()
	step := cycle / time.Duration(n)
	soonest := c.last.Add(min(step, time.Second/recheckRate))
	if e := c.due.Front(); e != nil {
		q = e.Value.(*recheckQuestion)
		if at = q.asked.Add(cycle); c.last.Add(step).Before(at) { // in turn, and at the latest when it must be
			at = c.last.Add(step)
		}
	}
	if e := c.denied.Front(); e != nil {
		if d := e.Value.(*recheckQuestion); q == nil || d.retryAt.Before(at) {
			q, at = d, d.retryAt
		}
	}
	if at.Before(soonest) {
		at = soonest
	}
	return q, at
}

// resetTimer sets the timer. The lock is held.
func (c *rechecker) resetTimer(now time.Time) {
	q, at := c.next()
	if q == nil || c.closed || len(c.asking) >= maxConcurrentRechecks {
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
func (c *rechecker) fire() {
	q, who := c.startNext()
	if q == nil {
		return
	}
	defer c.running.Done()
	who, d := c.ask(c.ctx, q, who)
	for _, g := range c.finish(q, who, d, time.Now()) {
		g.revoke()
	}
}

// startNext takes the next question, if its time has come.
func (c *rechecker) startNext() (*recheckQuestion, user.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	q, at := c.next()
	if q == nil || c.closed || len(c.asking) >= maxConcurrentRechecks || at.After(now) {
		c.resetTimer(now)
		return nil, nil
	}
	q.unlist()
	q.asked, c.last = now, now
	c.asking[q] = struct{}{}
	c.running.Add(1)
	if q.action == nil {
		c.tokens.Add(1)
	} else {
		c.permissions.Add(1)
	}
	c.resetTimer(now)
	return q, q.who
}

// finish takes an answer, and returns the watches that it ends.
func (c *rechecker) finish(q *recheckQuestion, who user.Info, d decision, now time.Time) (ended []*recheckedWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.resetTimer(now) }()
	delete(c.asking, q)
	if c.questions[q.id] != q { // the last watch has left meanwhile
		return nil
	}
	if q.action == nil && who != nil {
		c.updateUser(q, who)
	}
	switch keeps := q.stillAllowed(d, now, c.grace, c.maxPeriod); {
	case !keeps:
		return c.drop(q, d, now)
	case d == decisionDeny:
		q.retryAt = now.Add(min(confirmDelay, c.period))
		c.enqueue(q, &c.denied)
	default:
		c.enqueue(q, &c.due)
	}
	return nil
}

// updateUser notes whom a token is of, for the questions about what they may do: their groups may
// have changed. The lock is held.
func (c *rechecker) updateUser(token *recheckQuestion, who user.Info) {
	for g := range token.watches {
		for _, q := range g.questions {
			q.who = who
		}
	}
}

// drop gives up a question, and returns the watches that end. Those that need only a part of what
// was denied are asked about for that. The lock is held.
func (c *rechecker) drop(q *recheckQuestion, d decision, now time.Time) (ended []*recheckedWatch) {
	c.forget(q)
	for g := range q.watches {
		if g.fallback == nil || q.action == nil || d != decisionDeny {
			ended = append(ended, g)
			continue
		}
		part := g.fallback
		g.fallback = nil
		for i := range g.questions {
			if g.questions[i] == q {
				g.questions = append(g.questions[:i], g.questions[i+1:]...)
				break
			}
		}
		next := c.join(g, q.credential, q.who, part, now, false)
		if next.confirmed.Before(q.confirmed) {
			next.confirmed = q.confirmed
		}
		if next.list == &c.due && !next.denied {
			next.unlist()
			next.denied, next.retryAt = true, now
			c.enqueue(next, &c.denied)
			c.denied.MoveToFront(next.element)
		}
	}
	return ended
}

// close ends the asking, and waits for what is being asked.
func (c *rechecker) close() {
	c.mu.Lock()
	c.closed = true
	c.resetTimer(time.Now())
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// oldestAge returns how long ago the question was asked that has waited longest.
func (c *rechecker) oldestAge(now time.Time) (age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(q *recheckQuestion) { age = max(age, now.Sub(q.asked)) }
	for _, l := range []*list.List{&c.due, &c.denied} {
		if e := l.Front(); e != nil {
			note(e.Value.(*recheckQuestion))
		}
	}
	for q := range c.asking {
		note(q)
	}
	return age
}

// count returns how many questions there are, and in what time each is asked once.
func (c *rechecker) count() (n int, cycle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.questions), c.cycle()
}

var (
	descRechecks = prometheus.NewDesc("weir_proxy_rechecks_total",
		"Questions asked about callers of open watches: whose token it is, and whether they have a permission.", []string{"about"}, nil)
	descQuestions = prometheus.NewDesc("weir_proxy_recheck_questions",
		"Questions that are asked again and again, as long as the watches are open.", nil, nil)
	descPeriod = prometheus.NewDesc("weir_proxy_recheck_period_seconds",
		"In what time each of them is to be asked once.", nil, nil)
	descRecheckAge = prometheus.NewDesc("weir_proxy_recheck_age_seconds",
		"How long ago the one was asked that has waited longest.", nil, nil)
)

func describeRechecks(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRechecks, descQuestions, descPeriod, descRecheckAge} {
		ch <- d
	}
}

func (c *rechecker) collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descRechecks, prometheus.CounterValue, float64(c.tokens.Load()), "token")
	ch <- prometheus.MustNewConstMetric(descRechecks, prometheus.CounterValue, float64(c.permissions.Load()), "permission")
	n, cycle := c.count()
	ch <- prometheus.MustNewConstMetric(descQuestions, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(descPeriod, prometheus.GaugeValue, cycle.Seconds())
	ch <- prometheus.MustNewConstMetric(descRecheckAge, prometheus.GaugeValue, c.oldestAge(time.Now()).Seconds())
}
