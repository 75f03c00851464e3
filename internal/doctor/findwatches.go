package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/quantity"
)

const (
	// A server that restarts ends all WATCHes at once, some of them short, and its clients LIST
	// once: what happens three times on each machine, and 20 times in all, is a loop.
	relistLoops     = 20
	relistLoopsEach = 3
	// A crash loop comes to ten times an hour and more. Jobs that each hold an informer for some
	// seconds, one every half hour, are no loop.
	relistPerHour = 8
	// As many again, where nothing is LISTed: a WATCH that ends early and is resumed costs less.
	earlyWatches     = 50
	earlyWatchesEach = 3
	earlyPerHour     = 20
)

// findRelist finds a client that WATCHes for a short time and LISTs the same again and again.
func findRelist(u *usage, _ explain) (Finding, bool) {
	w, lists := u.watchesButProofs(), u.whole.total()+u.part.total()
	machines := u.watchMachines()
	if w.Short < relistLoops || lists < relistLoops || w.Short < relistLoopsEach*machines || lists < relistLoopsEach*machines {
		return Finding{}, false
	}
	if max(u.whole.busiestHour(), u.part.busiestHour()) < relistPerHour {
		return Finding{}, false
	}
	if 2*w.Short < w.Ended || 2*lists < w.Short || 2*w.Short < lists {
		return Finding{}, false
	}
	f := Finding{
		Kind: FindingRelist, Count: lists, whole: u.whole.total(),
		Text: fmt.Sprintf("LISTs %s again after each WATCH: %s LISTs, and %s of %s WATCHes were over within a minute%s",
			u.resource, quantity.Count(lists), quantity.Count(w.Short), quantity.Count(w.Ended), w.expired()),
		Remedy: "resume the WATCH from the last resourceVersion, with bookmarks; find what ends it: " +
			"a proxy's idle timeout, a client's deadline, a crash loop",
	}
	for _, p := range []*pattern{u.whole, u.part} {
		if p != nil {
			f.Seconds += p.latency.Seconds()
		}
	}
	return f, true
}

// findWatches finds WATCHes that are over soon.
func findWatches(u *usage, _ explain) (Finding, bool) {
	w := u.watchesButProofs()
	if w.Short < earlyWatches || u.shorts.busiest < earlyPerHour || w.Short < earlyWatchesEach*u.watchMachines() || 2*w.Short < w.Ended {
		return Finding{}, false
	}
	return Finding{
		Kind: FindingWatches, Count: w.Short,
		Text: fmt.Sprintf("ends its WATCHes of %s early: %s of %s were over within a minute, after %s on average%s",
			u.resource, quantity.Count(w.Short), quantity.Count(w.Ended), quantity.Seconds(w.Seconds/float64(w.Ended)), w.expired()),
		Remedy: "let WATCHes last 5 to 10 minutes: raise the client's timeoutSeconds, " +
			"or the idle timeout of the load balancer before the API server",
	}, true
}

// watchMachines estimates how many machines the WATCHes came from, at least 1.
func (u *usage) watchMachines() int64 {
	if u.watchPlaces == nil {
		return 1
	}
	return int64(max(1, u.watchPlaces.count()))
}

// expired says how many WATCHes were refused because they were too old.
func (w WatchCounts) expired() string {
	if w.Expired == 0 {
		return ""
	}
	return fmt.Sprintf("; %s more were refused with 410", quantity.Count(w.Expired))
}
