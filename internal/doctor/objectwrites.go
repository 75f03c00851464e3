package doctor

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/audit"
)

// maxWritten bounds the objects whose writers are kept: 2 MB.
const maxWritten = 2048

// objectWrites is an object, and who writes it.
type objectWrites struct {
	hourly
	resource, name string
	count          int64
	weight         int64 // see objects
	turns          int64 // writes that follow one of another writer
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

// objects has those that are written most: where there are more, one that has more than a 2,048th
// of all writes stays (Misra-Gries).
type objects struct {
	byName map[string]*objectWrites
	key    []byte
}

// add counts a write.
func (o *objects) add(e *audit.Event, c *client, resource []byte) {
	if len(e.Object.Name) == 0 || e.Refused() || e.Code >= 400 && e.Code != 409 {
		return
	}
	o.key = append(append(o.key[:0], resource...), 0)
	o.key = appendObject(o.key, e.Object)
	w := o.byName[string(o.key)]
	if w == nil && len(o.byName) >= maxWritten {
		for name, w := range o.byName {
			if w.weight--; w.weight == 0 {
				delete(o.byName, name)
			}
		}
		return
	}
	if w == nil {
		w = &objectWrites{resource: string(resource), name: string(bytes.TrimPrefix(o.key[len(resource)+1:], []byte("/")))}
		o.byName[string(o.key)] = w
	}
	w.add(e, writer{c.serial, hash(e.Place())})
}

// add counts a write of the object.
func (w *objectWrites) add(e *audit.Event, by writer) {
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

// writers returns who writes the object, who does most first.
func (w *objectWrites) writers() []share {
	return slices.SortedStableFunc(slices.Values(w.by), func(a, b share) int { return cmp.Compare(b.n, a.n) })
}
