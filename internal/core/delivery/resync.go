package delivery

import (
	"context"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// resync calls the handler with the objects that the sweep has reached.
func (r *Registration) resync(ctx context.Context) {
	if r.sweep.period == 0 {
		return
	}
	for o := range r.sweep.due(time.Now()) {
		if ctx.Err() != nil {
			return
		}
		r.resynced(ctx, o)
	}
}

// resynced calls the handler with an object again, unless the filter rejects the object. It skips
// the object if the handler must first receive a change of it. It also skips a version that is no
// longer the newest, because the handler may never receive the change to that version. It reports
// whether it called the handler.
func (r *Registration) resynced(ctx context.Context, o *store.Object) bool {
	if !r.cursor.Saw(o) || r.opts.Filter != nil && !r.passes(o) {
		return false
	}
	r.call(ctx, store.Change{Revision: o.Revision(), Old: o, New: o})
	return true
}

// ResyncNow requests a resync that starts immediately. It does not block. The handler receives each
// object again, in batches of 128 objects that alternate with batches of changes. Several calls
// before the resync starts request one resync. An object that changes or is deleted during the
// resync may be delivered only with its change.
func (r *Registration) ResyncNow() {
	r.resyncs.Store(true)
	r.wake()
}

// fullResync is a resync requested by ResyncNow: a position in the key space.
type fullResync struct {
	on    bool
	after string // the last key visited
}

func (w *fullResync) begin() { w.on, w.after = true, "" }

// continueResync delivers the next batch of the resync that ResyncNow requested. It returns false
// if no such resync is active.
func (r *Registration) continueResync(ctx context.Context) bool {
	w := &r.fullResync
	if !w.on {
		if !r.resyncs.Swap(false) {
			return false
		}
		w.begin()
	}
	left := batchSize
	for o := range r.store.Snapshot().From(w.after) {
		if o.Key() == w.after {
			continue
		}
		if left == 0 || ctx.Err() != nil {
			return true
		}
		if w.after = o.Key(); r.resynced(ctx, o) {
			left--
		}
	}
	w.on = false
	return true
}
