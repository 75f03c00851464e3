package doctor

import (
	"fmt"
	"math"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	FindingResync = "resync"

	resyncPeriod = 10 * time.Minute // LISTs with a shorter period are polling
	// resyncListsEach is the least number of LISTs of a resync, per burst and machine. Nodes that are
	// added each morning LIST only once each.
	resyncListsEach = 2
	// A period counts as exactly 10 h if it differs from 10 h by at most the share resyncExact.
	resyncExact = 0.01
)

var resyncKind = &kind{
	name:     FindingResync,
	does:     "LISTs in periodic bursts",
	from:     "3 bursts of at least 10 LISTs, 2 from each machine, at least 10 minutes apart, whose gaps agree within 10 %; or gaps of 10 h ± 10 %, also of several informers; or 2 such bursts of 100 LISTs (\"seen twice, not proven\")",
	incident: "resync-storm",
	find:     findResync,
	change: func(a api, _ *usage) string {
		return a.lister("List(selector)") + " // in the handler, instead of a LIST"
	},
	remedies: []remedy{unresynced, cached, inPages, informed, proxied},
}

// unresynced predicts the cost without the LISTs of resyncs, which a resync period of 0 avoids.
func unresynced(w *whatIfCase) (Prediction, bool) {
	lists, all := int64(0), max(1, w.u.whole.total()+w.u.part.total())
	for _, p := range []*pattern{w.u.whole, w.u.part} {
		if p == nil {
			continue
		}
		if r, ok := p.period(w.d.explains(w.c)); ok {
			lists += min(r.lists, p.count)
		}
	}
	rest := 1 - float64(lists)/float64(all)
	return w.change(RemedyUnsynced, func(b batch) batch {
		b.work.Requests *= rest
		b.work.Quorum *= rest
		return b
	}), true
}

// findResync finds a client whose LISTs come in periodic bursts, like LISTs that resyncs cause.
func findResync(u subject) (Finding, bool) {
	for _, p := range []*pattern{u.whole, u.part} {
		if p == nil || p == u.part && u.cleans() {
			continue
		}
		r, ok := p.period(u.explained())
		if !ok || r.every < resyncPeriod || r.lists < resyncListsEach*r.seen*p.machines() {
			continue
		}
		f := Finding{Count: p.count, Seconds: p.latency.Seconds(), whole: u.ofAll(p)}
		every, seen := humanize.Duration(r.every), fmt.Sprintf("seen %d times", r.seen)
		f.Remedy = "set the resync period to 0 and drop the LIST, or LIST from the informer's cache; "
		points := "a resync that LISTs, or a timer that does"
		if isNear(r.every.Microseconds(), resyncDefault.Microseconds()) {
			points = "a resync that LISTs: 10 h is the default period of controller-runtime, ± 10 %, and of knative, exact"
			if math.Abs(r.every.Hours()-resyncDefault.Hours()) > resyncExact*resyncDefault.Hours() {
				points += " (measured: " + every + ")"
			}
			every = "10 h"
			f.Remedy = "set the resync period to 0 (cache.Options.SyncPeriod of controller-runtime, " +
				"controller.WithResyncPeriod of knative), and LIST from the informer's cache; "
		}
		f.Remedy += "nothing is lost: a resync reads nothing from the server, and calls the handlers with objects that they " +
			"have received before; watches deliver changes, and a queue retries failed work. " +
			"Work that depends on more than objects needs a timer: RequeueAfter"
		if !r.proven {
			seen = "seen twice, not proven"
		}
		f.Text = fmt.Sprintf("LISTs %s in bursts every %s, %s: bursts of %s LISTs%s. That points to %s",
			u.resource, every, seen, humanize.Count(r.lists/r.seen), p.sort(), points)
		return f, true
	}
	return Finding{}, false
}

// period returns the period of the bursts. It returns false if they have none, or contain less than
// half of the LISTs.
func (p *pattern) period(explained explain) (period, bool) {
	for i := range p.bursts {
		p.bursts[i].close()
		if r, ok := p.bursts[i].period(explained); ok && float64(r.lists) >= inBursts*float64(p.count) {
			return r, true
		}
	}
	return period{}, false
}

// inBursts returns a text that describes the bursts, if most LISTs are in bursts. explains is true
// if there are two bursts and a start or a rollout explains the second one.
func (p *pattern) inBursts(explained explain) (text string, explains bool) {
	b := &p.bursts[0]
	b.close()
	if len(b.kept) < 2 || float64(b.sum) < withinBursts*float64(p.count) || b.most < twiceLists {
		return "", false
	}
	if len(b.kept) == 2 && explained(&b.kept[0], b.kept[1]) {
		return "", true
	}
	return fmt.Sprintf("in %d bursts of %s", b.n, humanize.Count(b.sum/b.n)), false
}
