package doctor

import (
	"math"
	"slices"
	"time"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	// Intervals from a quarter of a second to 48 days are counted in bins by length. An octave, the
	// range from a length to twice that length, has four bins. So each bin is 19 % wider than the
	// previous one.
	binsPerOctave = 4
	shortest      = 0.25 // seconds
	bins          = 24 * binsPerOctave
	// If a request is earlier than the previous one by more than an hour (restart), it is from a
	// second log that covers the same time.
	restart = time.Hour
)

// rhythm records when a client's requests start: the intervals between them, and bursts. It uses at
// most 2.5 KB. The zero value contains no requests.
type rhythm struct {
	first, last int64 // microseconds since 1970
	latest      int64 // the latest time in all logs; last is that of the current log
	count       int64
	hourly      hourly
	bin         [bins]bin
	bursts      [len(burstGaps)]bursts // one for each gap in burstGaps
}

type bin struct {
	n       uint32
	seconds float32 // the sum
}

// add records a request from a machine (place). at is in microseconds since 1970.
func (r *rhythm) add(at int64, place []byte) {
	r.hourly.add(at)
	machine := uint64(1) << (hash(place) % 64)
	for i := range r.bursts {
		r.bursts[i].add(at, burstGaps[i], machine)
	}
	r.count++
	if r.count == 1 {
		r.first, r.last, r.latest = at, at, at
		return
	}
	r.first, r.latest = min(r.first, at), max(r.latest, at)
	gap := at - r.last
	if gap < -restart.Microseconds() {
		r.last = at
		return
	}
	if gap < 0 { // the log is not in the order of time
		return
	}
	seconds := float64(gap) / 1e6
	nth := int(binsPerOctave * math.Log2(max(1, seconds/shortest)))
	b := &r.bin[min(bins-1, nth)]
	b.n++
	b.seconds += float32(seconds)
	r.last = at
}

// span returns the time from the first to the last request, at least a minute.
func (r *rhythm) span() time.Duration {
	return max(time.Minute, time.Duration(r.latest-r.first)*time.Microsecond)
}

// perHour returns the average rate between the first and the last request.
func (r *rhythm) perHour() float64 { return float64(r.count) / r.span().Hours() }

// interval returns the most common interval, and the share of intervals that are near it.
func (r *rhythm) interval() (time.Duration, float64) {
	var all, best bin
	for i := range r.bin {
		all.n += r.bin[i].n
		var near bin
		for _, b := range r.bin[max(0, i-1):min(bins, i+2)] {
			near.n += b.n
			near.seconds += b.seconds
		}
		if near.n > best.n {
			best = near
		}
	}
	if best.n == 0 {
		return 0, 0
	}
	mean := float64(best.seconds) / float64(best.n)
	return time.Duration(mean * float64(time.Second)), float64(best.n) / float64(all.n)
}

// hourly counts requests per hour. An hour starts with the first request after the previous hour.
type hourly struct {
	start   int64
	n       int64
	busiest int64 // the largest number of requests in an hour
}

// add counts a request, and reports whether an hour starts with it. at is in microseconds since
// 1970.
func (h *hourly) add(at int64) bool {
	hour := time.Hour.Microseconds()
	begins := h.n == 0 || at-h.start >= hour || h.start-at >= hour
	if begins {
		h.start, h.n = at, 0
	}
	h.n++
	h.busiest = max(h.busiest, h.n)
	return begins
}

const (
	// maxBursts limits the number of recorded bursts per pattern and gap. The records use 0.4 KB.
	maxBursts = 16
	// A burst has at least burstLists LISTs. After a restart there are fewer, because a client then
	// LISTs a resource once, or once per replica.
	burstLists = 10
	// A burst with fewer LISTs than the largest burst divided by burstRatio does not count.
	burstRatio = 8
	// inBursts is the least share of the LISTs that must be in bursts with a period. withinBursts is
	// the least share that must be in any bursts.
	inBursts     = 0.5
	withinBursts = 0.8
	// periodTolerance is how much the times between bursts may differ, as a share. The times differ
	// because programs need time after a timer fires, and controller-runtime randomizes each period.
	periodTolerance = 0.1
	periodAlike     = 0.75 // the least share of these times that must be alike

	resyncDefault = 10 * time.Hour // the default of controller-runtime and of knative
	// If only two bursts have the period, each must have at least twiceLists LISTs. The larger burst
	// must have at most twiceFactor times as many as the smaller one.
	twiceLists  = 100
	twiceFactor = 2
)

// burstGaps are the gaps with which doctor looks for bursts: a burst ends when a client sends no
// LIST for longer than a gap. The shorter gap finds the bursts of a client that also LISTs between
// its bursts.
var burstGaps = [...]time.Duration{2 * time.Minute, 5 * time.Second}

// burst describes LISTs that follow each other closely: the time from one LIST to the next is never
// longer than a gap of burstGaps.
type burst struct {
	start  int64  // microseconds since 1970
	places uint64 // the machines: a bit for each, by hash
	count  int64
}

// bursts records the bursts that have ended. The zero value contains none.
type bursts struct {
	now  burst   // the current one
	last int64   // when the last LIST started; microseconds since 1970
	kept []burst // the first maxBursts bursts that count
	n    int64   // the number of all bursts that count
	sum  int64   // the number of LISTs in these bursts
	most int64   // the number of LISTs in the largest burst
}

// add records a LIST at a time in microseconds since 1970. place contains the bit of its machine.
func (b *bursts) add(at int64, gap time.Duration, place uint64) {
	since := at - b.last
	if since > gap.Microseconds() || since < -restart.Microseconds() {
		b.close()
		b.now, b.last = burst{start: at}, at
	}
	b.last = max(b.last, at)
	b.now.count++
	b.now.places |= place
}

// close ends the current burst. A burst that is much smaller than another one does not count.
func (b *bursts) close() {
	one := b.now
	b.now = burst{}
	if one.count < max(burstLists, b.most/burstRatio) {
		return
	}
	if one.count > burstRatio*b.most {
		b.kept, b.n, b.sum = b.kept[:0], 0, 0
	}
	if len(b.kept) < maxBursts {
		b.kept = append(b.kept, one)
	}
	b.n++
	b.sum += one.count
	b.most = max(b.most, one.count)
}

// explain reports whether a restart or a rollout, instead of a resync, caused the burst b. The
// parameter before is an earlier burst that b may repeat, or nil.
type explain func(before *burst, b burst) bool

// period describes bursts that repeat.
type period struct {
	every  time.Duration
	seen   int64
	lists  int64 // in all bursts together
	proven bool
}

// period returns the period of the bursts. It returns false if they have none.
func (b *bursts) period(explained explain) (period, bool) {
	p := period{seen: b.n, lists: b.sum, proven: true}
	var gaps []int64
	for i := range len(b.kept) - 1 {
		gaps = append(gaps, b.kept[i+1].start-b.kept[i].start)
	}
	slices.Sort(gaps)
	if n := len(gaps); n >= 2 {
		median, near := gaps[n/2], 0
		for _, g := range gaps {
			if isNear(g, median) {
				near++
			}
		}
		if n == 2 && near == 2 || n > 2 && float64(near) >= periodAlike*float64(n) {
			p.every = time.Duration(median) * time.Microsecond
			return p, true
		}
	}
	return p, b.repeatDefault(&p, explained)
}

// repeatDefault reports whether bursts repeat after 10 h ± 10 %, and sets p. It looks for pairs of
// bursts with that distance, because the bursts of several informers may be mixed.
func (b *bursts) repeatDefault(p *period, explained explain) bool {
	target := resyncDefault.Microseconds()
	var links, sum int64
	var from, to *burst
	used := make([]bool, len(b.kept))
	for i := range b.kept {
		one := &b.kept[i]
		at := slices.IndexFunc(b.kept[:i], func(before burst) bool {
			return isNear(one.start-before.start, target) && !explained(&before, *one)
		})
		if at < 0 {
			continue
		}
		used[at], used[i] = true, true
		from, to = &b.kept[at], one
		links, sum = links+1, sum+one.start-from.start
	}
	if links == 0 {
		return false
	}
	p.every = time.Duration(sum/links) * time.Microsecond
	p.seen, p.lists, p.proven = 0, 0, links >= 2
	for i, one := range b.kept {
		switch {
		case used[i]:
			p.seen++
			p.lists += one.count
		case explained(nil, one):
		case !p.proven || float64(one.start-b.kept[0].start) >= (1-periodTolerance)*float64(target):
			return false
		}
	}
	return p.proven || min(from.count, to.count) >= max(twiceLists, max(from.count, to.count)/twiceFactor)
}

// isNear reports whether v differs from target by at most the share periodTolerance of target.
func isNear(v, target int64) bool {
	return math.Abs(float64(v-target)) <= periodTolerance*float64(target)
}

const (
	// maxStarts limits the number of a client's recorded starts, which are the times at which it
	// started an informer or ran on a new machine. The last ones are stored.
	maxStarts = 16
	// startsTogether is the longest time between requests that belong to one start.
	startsTogether = 10 * time.Minute
	// A rollout explains a burst of LISTs if it changes enough objects: at least rolloutFactor times
	// the usual number, plus one object for every listsPerChange LISTs of the burst.
	listsPerChange = 10
	rolloutFactor  = 2
	// aroundBurst is a tolerance, because a burst and its cause are not logged at the same time. A
	// changed object may be logged up to aroundBurst before the burst starts. The start of a client
	// may be logged up to aroundBurst after the burst starts.
	aroundBurst = time.Minute
)

// noteStart records that a client has started, because it runs on a new machine or starts an
// informer.
func (c *client) noteStart(at int64) {
	if n := len(c.starts); n > 0 && at-c.starts[n-1] < startsTogether.Microseconds() {
		return
	}
	if len(c.starts) == maxStarts {
		c.starts = append(c.starts[:0], c.starts[1:]...)
	}
	c.starts = append(c.starts, at)
}

// explains returns a function that reports whether a burst of a client's LISTs has another cause
// than a resync. There are three such causes: the client has started, another machine than before
// sends the LISTs, or clients create or delete many objects at that time, for example in a rollout.
func (d *Doctor) explains(c *client) explain {
	return func(before *burst, b burst) bool {
		if before != nil && before.places&b.places == 0 {
			return true
		}
		for _, at := range c.starts {
			if at >= b.start-2*startsTogether.Microseconds() && at <= b.start+aroundBurst.Microseconds() {
				return true
			}
		}
		from, to := b.start-aroundBurst.Microseconds(), b.start+startsTogether.Microseconds()
		changed, all := d.changed.sum(&d.clock, from, to), d.changed.sum(&d.clock, d.first, d.last)
		usual := rolloutFactor * float64(all) * float64(to-from) / float64(max(to-from, d.last-d.first))
		return (float64(changed-c.changed)-usual)*listsPerChange >= float64(b.count)
	}
}

// changesObjects reports whether a request has created or deleted an object on which controllers
// act. Controllers do not act on Events, Leases and reviews.
func changesObjects(e *evidence.Event, v verb) bool {
	if v != verbCreate && v != verbDelete || e.Code >= 300 || len(e.Object.Subresource) > 0 {
		return false
	}
	switch string(e.Object.Resource) {
	case "events", "leases":
		return false
	}
	switch string(e.Object.Group) {
	case "authentication.k8s.io", "authorization.k8s.io":
		return false
	}
	return true
}
