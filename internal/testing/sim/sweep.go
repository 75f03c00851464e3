package sim

import (
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// countResyncs starts to count the resyncs that the handler receives, for resynced.
func (h *handler) countResyncs() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resyncs, h.quiet = nil, true
}

// stirred reports whether the handler has received other events than resyncs since countResyncs was
// called.
func (h *handler) stirred() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.quiet
}

// resynced checks that since countResyncs the handler received each object once in each resync
// period, and that the resyncs were distributed evenly. during is the time since countResyncs.
// resynced checks nothing if the handler received other events.
func (h *handler) resynced(during time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var held int
	for _, was := range h.seen {
		if !was.gone {
			held++
		}
	}
	period := h.spec.Resync
	if h.reg == nil || h.ended || !h.quiet || held == 0 || period == 0 || time.Duration(2*held)*h.spec.Delay > period {
		return
	}
	expected := int(during / period)
	relists := 0
	// With ResyncOnRelist, a relist also delivers every object, and a silent watch sometimes causes a
	// relist.
	if h.client.spec.Options == "resync" {
		relists = 1 + int(during/(90*time.Second))
	}
	most := expected + 1 + expected/10 + relists
	times := map[api.Key]int{}
	close := 0
	for i, r := range h.resyncs {
		times[r.key]++
		if i > 0 && r.at-h.resyncs[i-1].at < period/time.Duration(4*held) {
			close++
		}
	}
	for key, was := range h.seen {
		if n := times[key]; !was.gone && (n < expected-1-expected/10 || n > most) {
			h.wrong("resync", "%v was handed out %d times in %v; the period is %v", key, n, during, period)
		}
	}
	if close > 2+len(h.resyncs)/10+relists*held {
		h.wrong("resync", "%d of %d objects came in bursts; the period is %v for %d", close, len(h.resyncs), period, held)
	}
}
