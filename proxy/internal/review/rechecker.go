package review

import (
	"container/list"
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
)

// Rechecker repeats reviews of the callers of open watches. It reviews tokens and permissions, not
// single watches: all watches of one caller with the same permission share a review. Reviews are
// spread evenly: each once per period, and together up to recheckRate per second. If that rate is
// too low for the period, the period grows up to maxPeriod, and then the rate grows. Rechecker has
// one timer, and one goroutine for each review in progress, maxConcurrentRechecks at most. Close
// ends the timer and the goroutines. Rechecker is safe for concurrent use.
type Rechecker struct {
	period, maxPeriod, grace time.Duration
	ask                      asker
	authn                    *Authenticator // for askUpstream
	authz                    *Authorizer
	ctx                      context.Context // its end cancels the reviews in progress
	cancel                   context.CancelFunc
	running                  sync.WaitGroup

	tokens, permissions atomic.Uint64 // number of reviews made

	mu      sync.Mutex
	reviews map[reviewID]*recheckedReview // at most two for each watch
	due     list.List                     // of *recheckedReview, least recently reviewed first
	denied  list.List                     // of *recheckedReview with one denial, by retryAt
	asking  int                           // reviews in progress
	last    time.Time                     // when the last review started
	timer   *time.Timer                   // fires when the next review is due
}

const (
	// recheckRate bounds how many reviews start per second. If that is too few for maxPeriod, more
	// start.
	recheckRate = 20
	// maxConcurrentRechecks bounds the reviews in progress.
	maxConcurrentRechecks = 64
	// cycleEighths is the part of the period, in eighths, in which each review is planned once. The
	// rest is a reserve, so that no review is later than a full period.
	cycleEighths = 7
	// confirmDelay is the time between a denial and the review that confirms it, unless there are too
	// many reviews. An API server that has just started may not have loaded its rules yet.
	confirmDelay = 5 * time.Second
)

// asker makes a review. who is the caller according to earlier reviews. asker returns the caller
// according to this review.
type asker func(ctx context.Context, q *recheckedReview, who user.Info) (user.Info, Decision)

// NewRechecker returns a Rechecker that repeats each review once per period. If there are many
// reviews, it repeats them less often, but each at least once in the longest period (most). While
// the upstream cannot be reached, the last positive answer remains valid for the grace period.
func NewRechecker(period, most, grace time.Duration, authn *Authenticator, authz *Authorizer) *Rechecker {
	c := &Rechecker{
		period: period, maxPeriod: max(most, period), grace: grace, authn: authn, authz: authz,
		reviews: map[reviewID]*recheckedReview{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.ask = c.askUpstream
	c.timer = time.AfterFunc(time.Hour, c.fire)
	c.timer.Stop() // the first watch starts it
	return c
}

// Recheck is one watch whose caller is rechecked. Leave ends it.
type Recheck struct {
	rechecker *Rechecker
	end       func()
	// fallback is the action to review if the permission for a wider action is denied; nil: none.
	fallback *request.Request

	reviews []*recheckedReview // at most two; guarded by the rechecker's lock

	mu    sync.Mutex
	ended bool
}

// Watch starts to recheck the caller of a watch. who is the caller, and r is the request of the
// watch. The proxy serves the watch because the caller has the permission for an action: the
// parameter by. The parameter part is the narrower action that the watch needs, or nil if it needs
// the action itself. confirmed says that the upstream has just allowed the action. Watch calls end
// once if the caller loses the permission, but never after Leave.
func (c *Rechecker) Watch(r *http.Request, who user.Info, by, part *request.Request, confirmed bool, end func()) *Recheck {
	return c.watch(c.authn.credentialOf(r), who, by, part, confirmed, end)
}

// watch is like Watch, with a credential instead of a request.
func (c *Rechecker) watch(b credential, who user.Info, by, part *request.Request, confirmed bool, end func()) *Recheck {
	g := &Recheck{rechecker: c, end: end, fallback: part}
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

// askUpstream is the asker that asks the upstream.
func (c *Rechecker) askUpstream(ctx context.Context, q *recheckedReview, who user.Info) (user.Info, Decision) {
	opts := Options{Grace: c.grace, uncached: true}
	r := q.credential.r.WithContext(ctx)
	if q.action == nil {
		return c.authn.Authenticate(r, opts)
	}
	if !q.credential.token {
		by, _ := c.authn.ByCertificate(r)
		if by == nil {
			return nil, Deny
		}
		who = by
	}
	return who, c.authz.allowsExactly(ctx, who, q.action, opts)
}

// join adds a watch to the review of a permission, or of the token if about is nil. The caller
// holds the lock.
func (c *Rechecker) join(g *Recheck, b credential, who user.Info, about *request.Request, now time.Time, confirmed bool) *recheckedReview {
	id := reviewID(b.id)
	if about != nil {
		digest := digestOf(about, who)
		id = sha256.Sum256(append(b.id[:], digest[:]...))
	}
	q := c.reviews[id]
	if q == nil {
		if len(c.reviews) == 0 {
			c.last = now // even the first review waits for its turn
		}
		q = &recheckedReview{id: id, credential: b, action: about, who: who, watches: map[*Recheck]struct{}{}, asked: now}
		c.reviews[id] = q
		c.enqueue(q, &c.due)
	}
	if confirmed {
		q.confirmed = now
	}
	q.watches[g] = struct{}{}
	g.reviews = append(g.reviews, q)
	return q
}

// enqueue appends a review to a list. The caller holds the lock.
func (c *Rechecker) enqueue(q *recheckedReview, in *list.List) {
	q.list, q.element = in, in.PushBack(q)
}

// Leave stops rechecking a watch. It blocks while end runs. After Leave has returned, end is not
// called.
func (g *Recheck) Leave() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	c := g.rechecker
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range g.reviews {
		if delete(q.watches, g); len(q.watches) == 0 {
			c.forget(q)
		}
	}
	g.reviews = nil
	c.resetTimer(time.Now())
}

// revoke calls the end function of the watch, unless the watch has ended.
func (g *Recheck) revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended {
		g.ended = true
		g.end()
	}
}

// forget removes a review. The caller holds the lock.
func (c *Rechecker) forget(q *recheckedReview) {
	q.unlist()
	if c.reviews[q.id] == q {
		delete(c.reviews, q.id)
	}
}

// cycle returns the time in which each review is planned once. The caller holds the lock.
func (c *Rechecker) cycle() time.Duration {
	enough := time.Duration(len(c.reviews)) * time.Second / recheckRate
	return min(max(enough, c.period/8*cycleEighths), c.maxPeriod/8*cycleEighths)
}

// next returns the next review and its planned time, or nil if there are no reviews. The caller
// holds the lock.
func (c *Rechecker) next() (q *recheckedReview, at time.Time) {
	n := len(c.reviews)
	if n == 0 {
		return nil, at
	}
	cycle := c.cycle()
	step := cycle / time.Duration(n)
	soonest := c.last.Add(min(step, time.Second/recheckRate))
	if e := c.due.Front(); e != nil {
		q = e.Value.(*recheckedReview)
		// The next review starts one step after the last review of any caller. It starts earlier if
		// otherwise more than a cycle would have passed since its own last start.
		if at = q.asked.Add(cycle); c.last.Add(step).Before(at) {
			at = c.last.Add(step)
		}
	}
	if e := c.denied.Front(); e != nil {
		if d := e.Value.(*recheckedReview); q == nil || d.retryAt.Before(at) {
			q, at = d, d.retryAt
		}
	}
	if at.Before(soonest) {
		at = soonest
	}
	return q, at
}

// resetTimer sets the timer to the time of the next review. The caller holds the lock.
func (c *Rechecker) resetTimer(now time.Time) {
	q, at := c.next()
	if q == nil || c.isFull() {
		c.timer.Stop()
		return
	}
	c.timer.Reset(at.Sub(now))
}

// isFull reports whether no review may start: too many are in progress, or the Rechecker is closed.
// The caller holds the lock.
func (c *Rechecker) isFull() bool { return c.asking >= maxConcurrentRechecks || c.ctx.Err() != nil }

// fire makes the next review. The timer calls it in a new goroutine.
func (c *Rechecker) fire() {
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

// startNext starts the next review if it is due, and returns the review and its caller.
func (c *Rechecker) startNext() (*recheckedReview, user.Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	q, at := c.next()
	if q == nil || c.isFull() || at.After(now) {
		c.resetTimer(now)
		return nil, nil
	}
	q.unlist()
	q.asked, c.last = now, now
	c.asking++
	c.running.Add(1)
	if q.action == nil {
		c.tokens.Add(1)
	} else {
		c.permissions.Add(1)
	}
	c.resetTimer(now)
	return q, q.who
}

// finish records the answer to a review, and returns the watches that must end.
func (c *Rechecker) finish(q *recheckedReview, who user.Info, d Decision, now time.Time) (ended []*Recheck) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.resetTimer(now) }()
	c.asking--
	if c.reviews[q.id] != q { // the last watch of q has ended in the meantime
		return nil
	}
	if q.action == nil && who != nil { // the groups of the user may have changed
		for g := range q.watches {
			for _, shared := range g.reviews {
				shared.who = who
			}
		}
	}
	switch keeps := q.stillAllowed(d, now, c.grace, c.maxPeriod); {
	case !keeps:
		return c.drop(q, d, now)
	case q.denied:
		c.confirmLater(q, d, now)
	default:
		c.enqueue(q, &c.due)
	}
	return nil
}

// confirmLater schedules the review that confirms a denial. After a denial, or if the upstream
// could not be reached, that review follows after confirmDelay. If the upstream can be reached but
// did not answer, the review follows a whole period later, because maxRefusals bounds the number of
// such failures. The caller holds the lock.
func (c *Rechecker) confirmLater(q *recheckedReview, d Decision, now time.Time) {
	delay := c.period
	if d == Deny || d == Unreachable || d == Grace {
		delay = min(confirmDelay, c.period)
	}
	q.retryAt = now.Add(delay)
	c.enqueue(q, &c.denied)
	for e := q.element.Prev(); e != nil && e.Value.(*recheckedReview).retryAt.After(q.retryAt); e = q.element.Prev() {
		c.denied.MoveBefore(q.element, e)
	}
}

// drop removes a denied review, and returns the watches that must end. A watch with a fallback
// continues with a review of the fallback. The caller holds the lock.
func (c *Rechecker) drop(q *recheckedReview, d Decision, now time.Time) (ended []*Recheck) {
	c.forget(q)
	for g := range q.watches {
		if g.fallback == nil || q.action == nil || d != Deny {
			ended = append(ended, g)
			continue
		}
		g.reviews = slices.DeleteFunc(g.reviews, func(r *recheckedReview) bool { return r == q })
		next := c.join(g, q.credential, q.who, g.fallback, now, false)
		g.fallback = nil
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

// Close starts no more reviews, cancels those in progress and waits for them.
func (c *Rechecker) Close() {
	c.mu.Lock()
	c.cancel()
	c.resetTimer(time.Now())
	c.mu.Unlock()
	c.running.Wait()
}

// oldestAge returns the time since the last start of the review that started longest ago.
func (c *Rechecker) oldestAge(now time.Time) (age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.reviews {
		age = max(age, now.Sub(q.asked))
	}
	return age
}

// count returns the number of reviews, and the time in which each is planned once.
func (c *Rechecker) count() (n int, cycle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reviews), c.cycle()
}

// Metrics reports the metrics of the Rechecker by calls of gauge and counter. In labels, names and
// values alternate.
func (c *Rechecker) Metrics(gauge, counter func(name, help string, value float64, labels ...string)) {
	const rechecks = "Reviews of the callers of open watches: of their tokens and of their permissions."
	counter("weir_proxy_rechecks_total", rechecks, float64(c.tokens.Load()), "about", "token")
	counter("weir_proxy_rechecks_total", rechecks, float64(c.permissions.Load()), "about", "permission")
	n, cycle := c.count()
	gauge("weir_proxy_recheck_reviews", "Reviews that the proxy repeats for the callers of open watches.", float64(n))
	gauge("weir_proxy_recheck_period_seconds", "The time in which the proxy repeats each of these reviews once.", cycle.Seconds())
	gauge("weir_proxy_recheck_age_seconds", "The age of the oldest of these reviews.", c.oldestAge(time.Now()).Seconds())
}

type reviewID [sha256.Size]byte

// recheckedReview is a review that the Rechecker repeats: of the user of a token, or of a
// permission of a caller.
type recheckedReview struct {
	id         reviewID
	credential credential
	action     *request.Request // nil: the review is of a token

	// The rechecker's lock guards the fields below.
	who     user.Info
	watches map[*Recheck]struct{}
	list    *list.List // the list in which the review waits; nil: the review is in progress
	element *list.Element
	asked   time.Time
	retryAt time.Time // for a review in rechecker.denied
	answerHistory
}

// unlist removes a review from its list. The caller holds the lock.
func (q *recheckedReview) unlist() {
	if q.list != nil {
		q.list.Remove(q.element)
		q.list, q.element = nil, nil
	}
}

// maxRefusals is how many times in a row a reachable upstream may fail to answer a review. After
// that many failures, the watches that depend on the review end.
const maxRefusals = 3

// answerHistory summarizes the answers to one review.
type answerHistory struct {
	confirmed time.Time // time of the last positive answer; zero: there was none
	denied    bool      // denied since the last positive answer
	// refusals is how many reviews a reachable upstream has not answered since the last positive
	// answer.
	refusals     int
	firstRefusal time.Time // time of the first of the refusals
}

// stillAllowed records a decision, and reports whether the watches may continue. After one denial
// they continue. After a second denial without a positive answer in between, they do not. While the
// upstream cannot be reached, watches continue for the grace period after the last positive answer.
// If a reachable upstream does not answer, watches end after maxRefusals unanswered reviews in a
// row. They end earlier if the first of these reviews is longer ago than the maximum time (most).
func (c *answerHistory) stillAllowed(d Decision, now time.Time, grace, most time.Duration) bool {
	switch d {
	case Allow:
		c.confirmed, c.denied, c.refusals = now, false, 0
	case Grace:
	case Unreachable:
		return now.Sub(c.confirmed) < grace
	case Deny:
		deniedBefore := c.denied
		c.denied = true
		return !deniedBefore
	default:
		if c.refusals == 0 {
			c.firstRefusal = now
		}
		c.refusals++
		return c.refusals < maxRefusals && now.Sub(c.firstRefusal) < most
	}
	return true
}
