package doctor

import (
	"math"
	"slices"
	"time"
)

const (
	// Intervals are sorted by length, four bins to an octave, so that neighbours are 19 % apart;
	// from a quarter of a second to 48 days.
	binsPerOctave = 4
	shortest      = 0.25 // seconds
	bins          = 24 * binsPerOctave
	maxBursts     = 64
	burstGap      = 2 * time.Minute // without a LIST, and a burst is over
	// burstLists are of one resource: a restart LISTs it once, or once for each replica.
	burstLists = 10
	// A log that goes back by restart is another one, of the same time.
	restart         = time.Hour
	periodTolerance = 0.1 // clocks are exact, but what they start takes its time
)

// rhythm keeps when something happens: how long the intervals between are, and the bursts. The zero
// value has seen nothing. It holds 2 KB at most.
type rhythm struct {
	first, last int64 // microseconds since 1970
	latest      int64 // of all; last is that of the log that is being read
	count       int64
	hourly      hourly
	bin         [bins]bin
	start       int64 // of the burst that is going on
	inBurst     int64
	bursts      []burst // that are over, of burstLists and more; the first maxBursts
	inBursts    int64   // LISTs in those
}

type bin struct {
	n       uint32
	seconds float32 // the sum
}

type burst struct {
	start int64
	count int64
}

// add notes that it happened again.
func (r *rhythm) add(at int64) {
	r.hourly.add(at)
	r.count++
	if r.count == 1 {
		r.first, r.last, r.latest, r.start, r.inBurst = at, at, at, at, 1
		return
	}
	r.first, r.latest = min(r.first, at), max(r.latest, at)
	gap := at - r.last
	if gap < -restart.Microseconds() {
		r.endBurst()
		r.last, r.start, r.inBurst = at, at, 1
		return
	}
	if gap < 0 { // told out of order
		r.inBurst++
		return
	}
	seconds := float64(gap) / 1e6
	nth := int(binsPerOctave * math.Log2(max(1, seconds/shortest)))
	b := &r.bin[min(bins-1, nth)]
	b.n++
	b.seconds += float32(seconds)
	r.last = at
	if gap > burstGap.Microseconds() {
		r.endBurst()
		r.start, r.inBurst = at, 0
	}
	r.inBurst++
}

// endBurst keeps the burst that is over.
func (r *rhythm) endBurst() {
	if r.inBurst >= burstLists && len(r.bursts) < maxBursts {
		r.bursts = append(r.bursts, burst{r.start, r.inBurst})
		r.inBursts += r.inBurst
	}
	r.inBurst = 0
}

// span returns the time from the first to the last, at least a minute.
func (r *rhythm) span() time.Duration {
	return max(time.Minute, time.Duration(r.latest-r.first)*time.Microsecond)
}

// perHour returns the mean rate while it happened.
func (r *rhythm) perHour() float64 { return float64(r.count) / r.span().Hours() }

// interval returns the interval that most are like, and the share of those.
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

// period returns the time between bursts, and how many there are, if the bursts come regularly and
// nearly all is in them.
func (r *rhythm) period() (every time.Duration, bursts int, ok bool) {
	r.endBurst()
	const (
		fewest = 4   // two equal intervals are chance, three are not
		within = 0.8 // of what happens is in bursts
		alike  = 0.75
	)
	if len(r.bursts) < fewest || float64(r.inBursts) < within*float64(r.count) {
		return 0, 0, false
	}
	var gaps []int64
	for i, b := range r.bursts[1:] {
		gaps = append(gaps, b.start-r.bursts[i].start)
	}
	slices.Sort(gaps)
	median, near := float64(gaps[len(gaps)/2]), 0
	for _, g := range gaps {
		if math.Abs(float64(g)-median) <= periodTolerance*median {
			near++
		}
	}
	if float64(near) < alike*float64(len(gaps)) {
		return 0, 0, false
	}
	return time.Duration(median) * time.Microsecond, len(r.bursts), true
}

// hourly counts what happens within an hour, which begins with the first of it.
type hourly struct {
	start   int64
	n       int64
	busiest int64 // the most in such an hour
}

// add counts one more, and reports whether an hour begins with it.
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
