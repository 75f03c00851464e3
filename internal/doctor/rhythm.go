package doctor

import (
	"math"
	"time"
)

const (
	// Intervals are sorted by length, four bins to an octave, so that neighbours are 19 % apart;
	// from a quarter of a second to 48 days.
	binsPerOctave = 4
	shortest      = 0.25 // seconds
	bins          = 24 * binsPerOctave
	// A log that goes back by restart is another one, of the same time.
	restart = time.Hour
)

// rhythm keeps when something happens: how long the intervals between are, and the bursts. The zero
// value has seen nothing. It holds 2.5 KB at most.
type rhythm struct {
	first, last int64 // microseconds since 1970
	latest      int64 // of all; last is that of the log that is being read
	count       int64
	hourly      hourly
	bin         [bins]bin
	bursts      [len(burstGaps)]bursts // by the gap that ends one
}

type bin struct {
	n       uint32
	seconds float32 // the sum
}

// add notes that it happened again, on a machine.
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
	if gap < 0 { // logged out of order
		return
	}
	seconds := float64(gap) / 1e6
	nth := int(binsPerOctave * math.Log2(max(1, seconds/shortest)))
	b := &r.bin[min(bins-1, nth)]
	b.n++
	b.seconds += float32(seconds)
	r.last = at
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
