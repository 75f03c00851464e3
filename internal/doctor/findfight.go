package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/quantity"
)

const (
	FindingFight = "fight"

	// fightTurns is the share of the writes that follow one of another client: each of two that
	// overwrite the other's has half of all, and one that does so at random half of that.
	fightTurns = 0.25
	// fightNamed is how many writes one has to have who is named, in percent.
	fightNamed = 5
)

var fightKind = &kind{
	name:    FindingFight,
	does:    "overwrites an object in turn with another client, or another machine of its own",
	from:    "a quarter of the writes follow one of another writer; they cost as much as `writes`, by the measured model",
	findAll: (*Doctor).fights,
}

// fights finds objects that several clients write in turn.
func (d *Doctor) fights() (all []Finding) {
	if thresholds() == nil {
		return nil
	}
	clients := map[int64]*client{}
	for _, c := range d.clients.least {
		clients[c.serial] = c
	}
	for _, w := range d.objects.byName {
		if w.turns == 0 || float64(w.turns) < fightTurns*float64(w.count) {
			continue
		}
		rate := d.perHour(w.busiest)
		if !isWasteful(rate, thresholds().Server.Of(d.writeWork(w.resource, rate))) {
			continue
		}
		if f, ok := d.fight(w, clients); ok {
			all = append(all, f)
		}
	}
	return all
}

// fight returns the finding about one object, unless its writers are not known any more.
func (d *Doctor) fight(w *objectWrites, clients map[int64]*client) (Finding, bool) {
	f := Finding{Resource: w.resource, Count: w.count + w.conflicts}
	var names []string
	for i, by := range w.writers() {
		c := clients[by.client]
		if c == nil || i > 0 && 100*by.n < fightNamed*w.count {
			continue
		}
		if f.Client == (Client{}) {
			f.Client = c.name
			continue
		}
		name := c.name.String()
		if c.name == f.Client {
			name = "itself on another machine"
		}
		f.with, names = append(f.with, c.name), append(names, fmt.Sprintf("%s (%s)", name, quantity.Count(by.n)))
	}
	if len(names) == 0 {
		return f, false
	}
	conflicts := ""
	if w.conflicts > 0 {
		conflicts = fmt.Sprintf("; %s more were conflicts (409)", quantity.Count(w.conflicts))
	}
	f.Text = fmt.Sprintf("overwrites %s %s in turn with %s: %s writes, up to %s an hour, of which %.0f%% follow one of another writer%s%s",
		w.resource, w.name, strings.Join(names, ", "), quantity.Count(w.count), quantity.Number(d.perHour(w.busiest)),
		100*float64(w.turns)/float64(w.count), d.sentTo(w.resource), conflicts)
	f.Remedy = "have one of them own the object, or each its own fields, by server-side apply; until then stop one of them"
	if d.options.Model != nil {
		x := &whatIfCase{d: d, concurrency: 1}
		f.WhatIf = []Prediction{
			x.predict(RemedyNone, d.writeBatch(w.resource, float64(w.count))),
			x.predict(RemedyOneWriter, d.writeBatch(w.resource, max(1, float64(w.count-w.turns)))),
		}
	}
	return f, true
}

// inFight reports whether a fight explains a client's writes.
func inFight(all []Finding, writes Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool {
		return f.Kind == FindingFight && f.Resource == writes.Resource && 2*f.Count > writes.Count &&
			(f.Client == writes.Client || slices.Contains(f.with, writes.Client))
	})
}
