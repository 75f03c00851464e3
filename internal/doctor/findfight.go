package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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

// fight is the objects of a resource that the same clients write in turn.
type fight struct {
	objects                  []*objectWrites // that with most writes first
	writes, turns, conflicts int64
	busiest                  int64 // writes in an hour, of all objects
	latency                  time.Duration
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
	for _, f := range d.objects.fights() {
		if !isWasteful(d.perHour(f.objects[0].busiest), thresholds().Server.Of(d.writeWork(f.objects[0].resource, d.perHour(f.busiest)))) {
			continue
		}
		if found, ok := d.fight(f, clients); ok {
			all = append(all, found)
		}
	}
	return all
}

// fights returns the objects that are written in turn, by their resource and the two clients that
// write them most.
func (o *objects) fights() map[string]*fight {
	all := map[string]*fight{}
	for _, w := range o.byName {
		if w.turns == 0 || float64(w.turns) < fightTurns*float64(w.count) {
			continue
		}
		by := w.writers()
		key := fmt.Sprint(w.resource, " ", min(by[0].client, by[1].client), " ", max(by[0].client, by[1].client))
		f := all[key]
		if f == nil {
			f = &fight{}
			all[key] = f
		}
		f.objects = append(f.objects, w)
		f.latency += w.latency
		f.writes, f.turns, f.conflicts, f.busiest = f.writes+w.count, f.turns+w.turns, f.conflicts+w.conflicts, f.busiest+w.busiest
	}
	for _, f := range all {
		slices.SortFunc(f.objects, func(a, b *objectWrites) int {
			return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name))
		})
	}
	return all
}

// fight returns the finding about objects, unless their writers are not known any more.
func (d *Doctor) fight(o *fight, clients map[int64]*client) (Finding, bool) {
	w := o.objects[0]
	f := Finding{Resource: w.resource, Count: o.writes + o.conflicts, Seconds: o.latency.Seconds()}
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
		f.with, names = append(f.with, c.name), append(names, name)
	}
	if len(names) == 0 {
		return f, false
	}
	what, conflicts := w.resource+" "+w.name, ""
	if n := len(o.objects) - 1; n > 0 {
		what += fmt.Sprintf(" and %d more objects", n)
	}
	if o.conflicts > 0 {
		conflicts = fmt.Sprintf("; %s more were conflicts (409)", quantity.Count(o.conflicts))
	}
	f.Text = fmt.Sprintf("overwrites %s in turn with %s: %s writes, up to %s an hour, of which %.0f%% follow one of another writer%s%s",
		what, strings.Join(names, ", "), quantity.Count(o.writes), quantity.Count(int64(d.perHour(o.busiest))),
		100*float64(o.turns)/float64(o.writes), d.sentTo(w.resource), conflicts)
	f.Remedy = "have one of them own the object, or each its own fields, by server-side apply; until then stop one of them"
	if d.options.Model != nil {
		x := &whatIfCase{d: d, concurrency: 1}
		f.WhatIf = []Prediction{
			x.predict(RemedyNone, d.writeBatch(w.resource, float64(o.writes))),
			x.predict(RemedyOneWriter, d.writeBatch(w.resource, max(1, float64(o.writes-o.turns)))),
		}
	}
	return f, true
}

// inFight reports whether a fight explains a client's writes.
func inFight(fights []Finding, writes Finding) bool {
	return slices.ContainsFunc(fights, func(f Finding) bool {
		return f.Resource == writes.Resource && 2*f.Count > writes.Count &&
			(f.Client == writes.Client || slices.Contains(f.with, writes.Client))
	})
}
