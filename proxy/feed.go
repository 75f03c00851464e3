package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

// feed brings what a reflector gets into a store so that each state of it is one that the upstream had, and knows which. It is the
// cache's clock.
//
// Changes come one by one, in the order of their resourceVersions, during a relist too: a client that breaks off in the middle of what a
// relist found goes on, at another replica, from the last resourceVersion that it got, and must not miss those with a lower one. When
// something went that a relist finds to be gone, nobody knows. So that comes first, with no newer resourceVersion than what the client had
// before: where it breaks off then, it is told of some of it again, and misses none. The states between the last one and the relist's are
// torn: who goes on from one of these, having seen it elsewhere, is answered upstream.
type feed struct {
	store   *store.Store
	history *watchcache.History
	enc     wire.Encoding
	synced  func()          // told once, after the first list
	giveUp  func(error)     // told when only a new store helps
	grow    func(int) error // told of the bytes that are about to be stored; an error: they must not be
	events  *atomic.Uint64  // of watches
	initial *atomic.Uint64  // objects of first lists

	mu     sync.Mutex              // held while the store and the history change, and by whoever needs them to fit
	begun  bool                    // the first list is in; changed by the reflector's goroutine, under mu
	last   uint64                  // in history; the same
	proven uint64                  // nothing has changed up to here: see prove
	waits  map[*proofWait]struct{} // as many as there are callers of Wait

	// Of the reflector's goroutine, about the relist under way.
	aside  []changed
	before uint64 // what the store was current to
	other  bool   // the list has an object that was not there before, in a version from then
	back   bool   // it is one of an upstream that went back: nothing of it is taken

	asideBytes atomic.Int64
}

// changed is an object of a relist that is not what the store holds.
type changed struct {
	rv  uint64
	raw []byte
}

// maxAside bounds what a relist puts aside to have it in order.
const maxAside = 32 << 20

var (
	errWentBack    = errors.New("the upstream went back in time")
	errTooMuchNews = errors.New("a relist found too much that had changed to put it in order")
)

// Observe is watchcache.Clock's.
func (f *feed) Observe(fn func(resourceVersion uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun { // a relist that has not ended, or broke off, may have changed what has no resourceVersion of its own
		f.name(f.last)
	}
	fn(f.versionLocked())
}

// version is what the store is current to.
func (f *feed) version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versionLocked()
}

func (f *feed) versionLocked() uint64 { return max(parseVersion(f.store.ResourceVersion()), f.proven) }

// Wait is watchcache.Clock's. It returns when the history fits, too: whoever has waited looks there next.
func (f *feed) Wait(ctx context.Context, resourceVersion uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &proofWait{resourceVersion, func() { cancel(errProven) }}
	f.mu.Lock()
	if f.proven >= resourceVersion {
		w.done()
	}
	if f.waits == nil {
		f.waits = map[*proofWait]struct{}{}
	}
	f.waits[w] = struct{}{}
	f.mu.Unlock()
	err := f.store.WaitResourceVersion(ctx, formatVersion(resourceVersion))
	f.mu.Lock()
	delete(f.waits, w)
	f.mu.Unlock()
	if err != nil && !errors.Is(context.Cause(ctx), errProven) {
		return err
	}
	f.Observe(func(uint64) {})
	return nil
}

// proofWait is somebody who waits for a resourceVersion that may be proven.
type proofWait struct {
	rv   uint64
	done func()
}

// errProven ends the wait for what has been proven.
var errProven = errors.New("proven")

// prove notes that what the store has is what there is at rv: all that has changed up to there is in it. Nobody else need tell of a
// resourceVersion at which nothing changed.
func (f *feed) prove(rv uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun || rv <= f.versionLocked() {
		return
	}
	f.proven = rv
	f.name(rv)
	for w := range f.waits {
		if w.rv <= rv {
			w.done()
		}
	}
}

// disproves reports whether a change at rv, which is news, is one that was proven not to be: then the upstream's past is another now. The lock
// is held.
func (f *feed) disproves(rv uint64) bool {
	return rv > 0 && rv <= f.proven && rv > parseVersion(f.store.ResourceVersion())
}

func formatVersion(rv uint64) string { return strconv.FormatUint(rv, 10) }

func parseVersion[T ~string | ~[]byte](s T) uint64 {
	v, _ := strconv.ParseUint(string(s), 10, 64)
	return v
}

// take is reflector.Config.Take.
func (f *feed) take(w *store.Writer, t wire.EventType, m *wire.Meta, object []byte) error {
	if err := f.grow(len(object)); err != nil {
		return err
	}
	switch {
	case t == 0 && !f.begun:
		f.initial.Add(1)
		return w.Put(m, object)
	case t == 0:
		return f.list(w, m, object)
	}
	f.events.Add(1)
	var err error
	if t == wire.Deleted {
		err = w.Delete(m, object)
	} else {
		err = w.Put(m, object)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disproves(parseVersion(m.ResourceVersion)) {
		f.giveUp(errWentBack)
		return errWentBack
	}
	w.Progress(string(m.ResourceVersion))
	f.flush(w, parseVersion(m.ResourceVersion))
	return err
}

// flush applies the one change that is buffered, whose resourceVersion is rv. The lock is held.
func (f *feed) flush(w *store.Writer, rv uint64) {
	if w.Flush() > 0 {
		f.name(rv)
	}
}

// name tells the history that the store has what there is at rv: a WATCH may begin there, whatever the log still holds. The lock is held.
func (f *feed) name(rv uint64) {
	f.last = max(f.last, rv)
	f.history.Add(rv, f.store.Revision())
}

// list takes an object of a relist: marked at once where it is held as it is, else put aside.
func (f *feed) list(w *store.Writer, m *wire.Meta, object []byte) error {
	if f.back {
		return errWentBack
	}
	rv := parseVersion(m.ResourceVersion)
	held, ok := f.store.Get(string(wire.AppendKey(nil, m)))
	same := ok && held.UID() == string(m.UID)
	has, _ := rvOf(held)
	f.other = f.other || rv > 0 && rv <= f.before && has != rv
	if same && has > rv {
		return w.Put(m, object) // the store decides at the end which of the two is right
	}
	if known, err := w.Known(m, object); known || err != nil {
		return err
	}
	if f.asideBytes.Add(int64(len(object))) > maxAside {
		f.aside = nil
		f.giveUp(errTooMuchNews)
		return errTooMuchNews
	}
	f.aside = append(f.aside, changed{rv, slices.Clone(object)})
	if same {
		return f.mark(w, held)
	}
	return nil // what has the key now is gone, and so comes first
}

// rvOf is the resourceVersion of what is held; false: there is none.
func rvOf(held *store.Object) (rv uint64, ok bool) {
	if held == nil {
		return 0, false
	}
	return held.ResourceVersionNumber()
}

// mark notes that an object is still there, though in another version.
func (f *feed) mark(w *store.Writer, held *store.Object) error {
	raw, err := held.AppendRaw(nil)
	if err != nil {
		return err
	}
	var m wire.Meta
	if err := wire.ReadMeta(f.enc, raw, &m); err != nil {
		return err
	}
	return w.Put(&m, raw)
}

// BeginReplace is reflector.Replacer's.
func (f *feed) BeginReplace(w *store.Writer, rebase bool) {
	f.drop()
	f.before, f.other, f.back = parseVersion(f.store.ResourceVersion()), false, rebase && f.begun
	w.BeginReplace(rebase)
	if f.back {
		f.giveUp(errWentBack)
	}
}

// AbortReplace is reflector.Replacer's.
func (f *feed) AbortReplace(w *store.Writer) {
	f.drop()
	w.AbortReplace()
}

func (f *feed) drop() {
	f.aside = nil
	f.asideBytes.Store(0)
}

// EndReplace is reflector.Replacer's. A list that is not older than what was held, and tells of an object before that in a version which
// was not there, is of another past: the upstream was restored from a backup, and has come to these resourceVersions again. Those who
// watch must not be told of it as of changes.
func (f *feed) EndReplace(w *store.Writer, resourceVersion string) {
	if !f.begun {
		f.begin(w, resourceVersion)
		return
	}
	end := parseVersion(resourceVersion)
	if f.back || f.other && end >= f.before {
		f.AbortReplace(w)
		f.giveUp(errWentBack)
		return
	}
	slices.SortStableFunc(f.aside, func(a, b changed) int { return cmp.Compare(a.rv, b.rv) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.aside, func(c changed) bool { return f.disproves(c.rv) }) {
		f.AbortReplace(w)
		f.giveUp(errWentBack)
		return
	}
	at := f.last
	if end > f.before {
		if from := max(f.before, at) + 1; from < end {
			f.history.Tear(from)
		}
		at = end
	}
	w.EndReplace(resourceVersion)
	var m wire.Meta
	for _, c := range f.aside {
		if wire.ReadMeta(f.enc, c.raw, &m) != nil || w.Put(&m, c.raw) != nil {
			continue // it was read before, and there is nobody to tell: the next event of this object brings it
		}
		w.Flush() // each on its own, in this order
	}
	f.name(at)
	f.drop()
}

// begin ends the first list.
func (f *feed) begin(w *store.Writer, resourceVersion string) {
	f.mu.Lock()
	w.EndReplace(resourceVersion)
	f.last = parseVersion(resourceVersion)
	f.history.Reset(f.last, f.store.Revision())
	f.begun = true
	f.mu.Unlock()
	f.synced()
}
