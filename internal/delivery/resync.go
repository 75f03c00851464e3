package delivery

import (
	"context"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// resync hands the handler what the sweep is due to.
func (r *Registration) resync(ctx context.Context) {
	for o := range r.sweep.due(time.Now()) {
		if ctx.Err() != nil {
			return
		}
		r.resynced(ctx, o)
	}
}

// resynced hands the handler an object once more. One whose change it has not been told of yet is
// left out: a handler must not see a change after the version. It reports whether the handler was
// called.
func (r *Registration) resynced(ctx context.Context, o *store.Object) bool {
	if !r.cursor.Saw(o) || r.opts.Filter != nil && !r.passes(o) {
		return false
	}
	r.call(ctx, Event{Type: Resynced, Old: o, New: o})
	return true
}

// ResyncNow asks for every object once more, without delay: the handler is handed them in turn with
// the changes that keep coming, a batch of 128 of the one and then of the other. It does not wait.
// What is asked for while nothing of it has begun is done once. An object that changes meanwhile
// comes with its change alone, and one that goes may still be handed out.
func (r *Registration) ResyncNow() {
	select {
	case r.now <- struct{}{}:
	default:
	}
}

// walk is a resync that was asked for: a position in the key space.
type walk struct {
	on    bool
	after string // the last key handed out
}

func (w *walk) begin() { w.on, w.after = true, "" }

// walkOn hands out the next batch of the resync that was asked for. It reports whether there was
// one.
func (r *Registration) walkOn(ctx context.Context) bool {
	w := &r.walk
	if !w.on {
		select {
		case <-r.now:
			w.begin()
		default:
			return false
		}
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
