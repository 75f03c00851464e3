package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	FindingRelist = "relist"

	// A server that restarts ends all WATCHes, some of them early, and its clients LIST once. If that
	// happens three times on each machine, and 20 times in all, it is a loop.
	relistLoops     = 20
	relistLoopsEach = 3
	// A crash loop happens at least ten times an hour. Jobs that use an informer for some seconds, one
	// every half hour, are no loop.
	relistPerHour = 8
)

var relistKind = &kind{
	name:     FindingRelist,
	does:     "LISTs again after each WATCH, which is over soon",
	from:     "20 LISTs and 20 WATCHes of less than a minute, 8 LISTs in an hour",
	incident: "relist",
	find:     findRelist,
	change: func(a api, _ *usage) string {
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true}) ` +
			`// last: of the last event or bookmark`
	},
	kubectl:  watchOnce,
	remedies: []remedy{resumed, cached, proxied},
}

// findRelist finds a client that WATCHes for a short time and LISTs the same again and again.
func findRelist(u subject) (Finding, bool) {
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
		Count: lists, whole: u.whole.total(),
		Text: fmt.Sprintf("LISTs %s again after each WATCH: %s LISTs, and %s of %s WATCHes were over within a minute%s",
			u.resource, humanize.Count(lists), humanize.Count(w.Short), humanize.Count(w.Ended), w.expired()),
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
