package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingFight = "fight"

	// fightTurns is the least share of the writes of an object that must follow a write of another
	// writer. If two clients write in turn, each write follows a write of the other client. If they
	// write at random, half of the writes do.
	fightTurns = 0.25
	// fightNamed is the least share of an object's writes, in percent, for which a finding names a
	// client. The client with the most writes is always named.
	fightNamed = 5
)

var fightKind = &kind{
	name:    FindingFight,
	does:    "overwrites an object in turn with another client, or with the same client on another machine",
	from:    "a quarter of the writes follow a write of another writer; they cost as much as for `writes`",
	findAll: (*Doctor).fights, apart: true,
	explains: func(fight, other Finding) bool {
		return other.Kind == FindingWrites && fight.Resource == other.Resource && 2*fight.Count > other.Count &&
			(fight.Client == other.Client || slices.Contains(fight.with, other.Client))
	},
}

// fight contains the objects of a resource that the same clients write in turn.
type fight struct {
	objects                  []*objectWrites // the one with the most writes first
	writes, turns, conflicts int64
	busiest                  int64 // the sum of the largest numbers of writes per hour
	latency                  time.Duration
}

// fights returns findings about objects that several clients write in turn, if these writes cost
// too much (see areWasteful).
func (d *Doctor) fights() (all []Finding) {
	clients := map[int64]*client{}
	for _, c := range d.clients.least {
		clients[c.serial] = c
	}
	for _, f := range d.objects.fights() {
		if !d.areWasteful(f.objects[0].resource, d.perHour(f.objects[0].busiest), d.perHour(f.busiest)) {
			continue
		}
		if found, ok := d.fight(f, clients); ok {
			all = append(all, found)
		}
	}
	return all
}

// fights returns the objects that are written in turn, grouped by resource and by the two clients
// with the most writes.
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

// fight returns the finding about a fight. The finding names the writers of the object with the
// most writes, except evicted clients, which have no name any more. After the first writer, it
// leaves out writers with less than fightNamed percent of the writes. fight returns false if the
// finding would name fewer than two writers.
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
		conflicts = fmt.Sprintf("; %s more were conflicts (409)", humanize.Count(o.conflicts))
	}
	f.Text = fmt.Sprintf("overwrites %s in turn with %s: %s writes, up to %s an hour, of which %.0f%% follow one of another writer%s%s",
		what, strings.Join(names, ", "), humanize.Count(o.writes), humanize.Count(int64(d.perHour(o.busiest))),
		100*float64(o.turns)/float64(o.writes), d.sentTo(w.resource), conflicts)
	f.Remedy = "let one of them own the object, or let each own its fields with server-side apply; until then, stop one of them"
	if d.options.Model != nil {
		x := &whatIfCase{d: d, concurrency: 1}
		f.WhatIf = []Prediction{
			x.predict(RemedyNone, d.writeBatch(w.resource, float64(o.writes))),
			x.predict(RemedyOneWriter, d.writeBatch(w.resource, max(1, float64(o.writes-o.turns)))),
		}
	}
	return f, true
}

// maxWritten limits the number of objects whose writers are recorded. The records use 2 MB.
const maxWritten = 2048

// objectWrites contains the counts of one object's writes and its writers.
type objectWrites struct {
	hourly
	resource, name string
	count          int64
	weight         int64 // see objects
	turns          int64 // writes that follow a write of another writer
	conflicts      int64
	latency        time.Duration
	last           writer
	by             []share // at most maxWriters
}

// writer is a client on a machine.
type writer struct {
	client int64
	place  uint64
}

type share struct {
	writer
	n int64
}

const maxWriters = 8

// objects contains the objects with the most writes, up to maxWritten. If there are more objects,
// an object with more than a 2,048th of all writes is never removed (Misra-Gries).
type objects struct {
	byName map[string]*objectWrites
}

// add counts a write of the object in t by the client c. It ignores a write that names no object,
// that the server refused, or that failed with an error other than 409. If maxWritten other objects
// are recorded, it reduces their weights instead, and removes objects whose weight becomes 0.
func (o *objects) add(e *evidence.Event, c *client, t *target) {
	if len(e.Object.Name) == 0 || e.Refused() || e.Code >= 400 && e.Code != 409 {
		return
	}
	w := o.byName[string(t.key)]
	if w == nil && len(o.byName) >= maxWritten {
		for name, w := range o.byName {
			if w.weight--; w.weight == 0 {
				delete(o.byName, name)
			}
		}
		return
	}
	if w == nil {
		w = &objectWrites{resource: string(t.resource), name: strings.TrimPrefix(string(t.object), "/")}
		o.byName[string(t.key)] = w
	}
	w.add(e, writer{c.serial, hash(e.Place())})
}

// add counts a write of the object. A conflict (409) counts neither as a write of its writer nor as
// a turn.
func (w *objectWrites) add(e *evidence.Event, by writer) {
	w.hourly.add(e.Staged)
	w.weight++
	w.latency += e.Latency()
	if e.Code == 409 {
		w.conflicts++
		return
	}
	w.count++
	if w.last != by && w.last != (writer{}) {
		w.turns++
	}
	w.last = by
	at := slices.IndexFunc(w.by, func(one share) bool { return one.writer == by })
	if at < 0 && len(w.by) < maxWriters {
		w.by, at = append(w.by, share{writer: by}), len(w.by)
	}
	if at >= 0 {
		w.by[at].n++
	}
}

// writers returns the counted writers of the object, sorted by their numbers of writes, highest
// first. Only the maxWriters writers that wrote earliest are counted.
func (w *objectWrites) writers() []share {
	return slices.SortedStableFunc(slices.Values(w.by), func(a, b share) int { return cmp.Compare(b.n, a.n) })
}
