package delivery

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

const (
	// sweepTick is the shortest time between two batches of a sweep.
	sweepTick = 5 * time.Millisecond
	// If the sweep is late, many objects may be due. Then a batch has at most as many objects as
	// become due within sweepLate. So the sweep stays behind instead of delivering a burst.
	sweepLate = 20 * time.Millisecond
)

// sweep visits every key of a store once per period, at a constant rate. It has a position and no
// queue. Only one goroutine at a time may use it.
type sweep struct {
	store  *store.Store
	period time.Duration // 0: off
	start  float64       // where in the key space to start, in [0, 1)

	idle   bool      // the store was empty at the last call
	began  bool      // the start position was set from start
	at     time.Time // time up to which credit is counted, at first the start of the handler
	credit float64   // number of objects that are due
	after  string    // the last key visited

	passed atomic.Int64 // the approximate number of keys up to the key after; read by other goroutines
}

// next returns the time until an object is due. It returns false when the sweep is off, and while
// the store is empty or not synced. When the store has an object and is synced, the cursor notifies
// the workers.
func (w *sweep) next(now time.Time) (time.Duration, bool) {
	if w.period == 0 {
		return 0, false
	}
	n := w.store.Len()
	if n == 0 || !w.store.Synced() {
		return 0, false
	}
	each := float64(w.period) / float64(n)
	due := w.at.Add(time.Duration((1 - w.credit) * each))
	return max(due.Sub(now), sweepTick), true
}

// due returns the objects that have become due since the last call.
func (w *sweep) due(now time.Time) iter.Seq[*store.Object] {
	n := w.store.Len()
	if w.idle || w.period == 0 || n == 0 || !w.store.Synced() {
		w.at, w.credit = now, 0
		w.idle = n == 0 || !w.store.Synced()
		return func(func(*store.Object) bool) {}
	}
	rate := float64(n) / float64(w.period)
	w.credit = min(w.credit+rate*float64(now.Sub(w.at)), max(1, rate*float64(sweepLate)), float64(n))
	w.at = now
	batch := int(w.credit)
	w.credit -= float64(batch)
	return func(yield func(*store.Object) bool) {
		if batch > 0 {
			began, before := w.began, w.after
			w.yieldBatch(batch, yield)
			w.note(!began, before, batch, n)
		}
	}
}

// note adds batch, the number of objects in a batch, to passed. n is the number of all objects, and
// before is the last key visited before the batch. first is true if the batch started at w.start.
func (w *sweep) note(first bool, before string, batch, n int) {
	switch passed := w.passed.Load(); {
	case first:
		w.passed.Store(int64(w.start*float64(n)) + int64(batch))
	case w.after <= before: // the sweep continued with the first key
		w.passed.Store(0)
	default:
		w.passed.Store(passed + int64(batch))
	}
}

// swept returns the completed part of the current round, from 0 to 1. It is safe for concurrent
// use.
func (w *sweep) swept() float64 {
	n := w.store.Len()
	if w.period == 0 || n == 0 {
		return 0
	}
	return min(float64(w.passed.Load())/float64(n), 1)
}

// yieldBatch yields the next batch of objects in key order. After the last key it continues with
// the first.
func (w *sweep) yieldBatch(batch int, yield func(*store.Object) bool) {
	snap := w.store.Snapshot()
	if !w.began {
		w.began, w.after = true, keyAt(snap, w.start)
	}
	for round := 0; round < 2 && batch > 0; round++ {
		for o := range snap.From(w.after) {
			if o.Key() == w.after {
				continue
			}
			w.after = o.Key()
			batch--
			if !yield(o) || batch == 0 {
				return
			}
		}
		w.after = ""
	}
}

// keyAt returns the key of the last object before the position start, a fraction of all objects. It
// returns "" if no object is before start. It visits all objects before start, so it is called only
// once for each sweep.
func keyAt(snap *store.Snapshot, start float64) (key string) {
	left := int(start * float64(snap.Len()))
	for o := range snap.All() {
		if left == 0 {
			break
		}
		left--
		key = o.Key()
	}
	return key
}
