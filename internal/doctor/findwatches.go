package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/quantity"
)

const (
	FindingWatches = "watches"

	// As many again, where nothing is LISTed: a WATCH that ends early and is resumed costs less.
	earlyWatches     = 50
	earlyWatchesEach = 3
	earlyPerHour     = 20
)

var watchesKind = &kind{
	name:     FindingWatches,
	does:     "ends its WATCHes early",
	from:     "50 WATCHes of less than a minute, half of all, 20 in an hour",
	incident: "initial-events",
	find:     findWatches,
	change: func(a api, _ *usage) string {
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, ` +
			`TimeoutSeconds: ptr.To(int64(300 + rand.IntN(300)))})`
	},
	kubectl: func(a api) string {
		return a.kubectl() + " --watch --request-timeout=0 # the default: it lasts until it is stopped"
	},
	remedies: []remedy{lasted},
	asks: func(w *whatIfCase) []batch {
		return append(w.d.batches(w.c.name, w.u), w.watches(float64(w.u.watchesButProofs().Ended)))
	},
}

// findWatches finds WATCHes that are over soon.
func findWatches(u subject) (Finding, bool) {
	w := u.watchesButProofs()
	if w.Short < earlyWatches || u.shorts.busiest < earlyPerHour || w.Short < earlyWatchesEach*u.watchMachines() || 2*w.Short < w.Ended {
		return Finding{}, false
	}
	return Finding{
		Count: w.Short,
		Text: fmt.Sprintf("ends its WATCHes of %s early: %s of %s were over within a minute, after %s on average%s",
			u.resource, quantity.Count(w.Short), quantity.Count(w.Ended), quantity.Seconds(w.Seconds/float64(w.Ended)), w.expired()),
		Remedy: "let WATCHes last 5 to 10 minutes: raise the client's timeoutSeconds, " +
			"or the idle timeout of the load balancer before the API server",
	}, true
}
