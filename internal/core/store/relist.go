package store

import (
	"strings"

	"github.com/weirproject/weir/internal/core/views"
)

// relist is the running replace of a writer that is synced. It stages the listed versions that
// differ from the table, and EndReplace applies all of its changes in one step: first the
// deletions, then the staged versions in key order. So readers see the state before the relist or
// the state after it, and a relist that breaks off changes nothing.
//
// All relists of a store together stage at most Config.LogBytes and one batch. A relist for which
// that is not enough applies its staged versions, and then each further one as it is listed; see
// InParts.
type relist struct {
	staged tree[string, *Object] // packed; none of them is in the table
	bytes  int64                 // of staged; a part of Store.staged
}

// changeBytesStaged is the memory of a change of a relist in addition to its new version: in the
// relist, in the batch that applies it, and in the log until the log drops old records.
const changeBytesStaged = 200

func stagedBytes(o *Object) int64 { return changeBytesStaged + o.Footprint() + int64(len(o.key)) }

// InParts returns how many relists had more changes than the store may stage, so that readers saw
// parts of them. It is safe for concurrent use.
func (w *Writer) InParts() int { return int(w.inParts.Load()) }

// stagedVersion returns the version that the running relist has staged under the current key, or
// nil. The callers of the methods of this file hold Store.writing.
func (w *Writer) stagedVersion() *Object {
	if w.relist == nil {
		return nil
	}
	o, _ := w.relist.staged.get(views.String(w.key))
	return o
}

// stages reports whether the running relist has staged a version under a key.
func (w *Writer) stages(key string) bool {
	if w.relist == nil {
		return false
	}
	_, ok := w.relist.staged.get(key)
	return ok
}

// stage stages a packed version, in place of the one that is staged under its key.
func (w *Writer) stage(o *Object) {
	if before, ok := w.relist.staged.get(o.key); ok {
		w.unstage(before)
	}
	o.serverGen = w.serverGen
	w.relist.staged.set(o.key, o)
	w.relist.bytes += stagedBytes(o)
	w.s.staged.Add(stagedBytes(o))
}

// unstage drops a staged version.
func (w *Writer) unstage(o *Object) {
	w.relist.staged.delete(o.key)
	w.relist.bytes -= stagedBytes(o)
	w.s.staged.Add(-stagedBytes(o))
	w.s.release(o)
}

// beginRelist starts to stage if the writer is synced. Before that, readers see the objects of the
// first list as they arrive.
func (w *Writer) beginRelist() {
	if w.dropRelist(); w.synced && !w.manual {
		w.relist = &relist{staged: tree[string, *Object]{cmp: strings.Compare}}
	}
}

// takeRelist ends the staging, and returns the relist, or nil if the writer does not stage.
func (w *Writer) takeRelist() *relist {
	r := w.relist
	if w.relist = nil; r != nil {
		w.s.staged.Add(-r.bytes)
	}
	return r
}

// dropRelist drops all staged versions.
func (w *Writer) dropRelist() {
	if r := w.takeRelist(); r != nil {
		r.staged.ascend("", func(_ string, o *Object) bool {
			w.s.release(o)
			return true
		})
	}
}

// boundRelist applies the staged versions if they exceed the bound.
func (w *Writer) boundRelist() {
	if w.relist != nil && w.s.staged.Load() > w.s.log.limit {
		w.inParts.Add(1)
		w.s.flush()
		w.apply(w.takeRelist())
	}
}

// endRelist adds the changes of the relist to the batch: it removes the writer's owner from the
// versions of gone, which the server did not have at resourceVersion end, and then adds the staged
// versions. If the changes do not exceed the bound, the caller's next flush applies all of them.
func (w *Writer) endRelist(end uint64, gone []*Object) {
	staged, r := w.s.staged.Load(), w.takeRelist()
	switch {
	case r == nil:
	case staged+int64(len(gone))*changeBytesStaged <= w.s.log.limit:
		w.s.filling().hold(len(gone) + r.staged.count)
	default:
		w.inParts.Add(1)
	}
	w.release(end, gone)
	w.apply(r)
}

// apply adds the staged versions of r, which may be nil, to the batch. Other writers may have
// changed the table after a version was staged.
func (w *Writer) apply(r *relist) {
	if r == nil {
		return
	}
	r.staged.ascend("", func(_ string, o *Object) bool {
		w.key = append(w.key[:0], o.key...)
		held, came := w.compare(o, nil)
		if came == newer {
			if held != nil {
				o.key = held.key
			}
			w.putPacked(held, o)
			w.s.flushFull()
			return true
		}
		if w.s.release(o); came == conflicting {
			w.keepUnconfirmed(o)
		}
		return true
	})
}
