package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

// feed brings what a reflector gets into a store. It also tells the history of the watch cache
// which revision belongs to which resourceVersion, as package watchcache demands of whoever writes:
// changes come one by one, in the order of their resourceVersions, those of a relist too.
type feed struct {
	*store.Writer
	store   *store.Store
	history *watchcache.History
	synced  func() // called after the first list
	giveUp  func() // called when the server went back: only a new store helps

	mu    sync.Mutex // held while store and history change
	begun bool
	last  uint64
	aside []listedObject
	// About the relist under way: before is the resourceVersion that was current before it. other
	// says that the list has an object from up to then that was not held.
	before uint64
	other  bool
	back   bool // it comes from a server that went back: nothing of it is taken
}

var errWentBack = errors.New("the server went back")

type listedObject struct {
	rv  uint64
	raw []byte
}

// Observe implements watchcache.Clock.
func (f *feed) Observe(fn func(uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun {
		f.name(f.last)
	}
	fn(resourceversion.Number(f.store.ResourceVersion()))
}

// Wait implements watchcache.Clock.
func (f *feed) Wait(ctx context.Context, rv uint64) error {
	if err := f.store.WaitResourceVersion(ctx, resourceversion.Format(rv)); err != nil {
		return err
	}
	f.Observe(func(uint64) {})
	return nil
}

// Take implements reflector.Sink. It returns each error as a Refusal, after which no list follows.
func (f *feed) Take(t wire.EventType, m *wire.Meta, raw []byte, _ any) error {
	if err := f.take(t, m, raw); err != nil {
		return reflector.Refusal{Err: err}
	}
	return nil
}

func (f *feed) take(t wire.EventType, m *wire.Meta, raw []byte) error {
	switch {
	case t == 0 && !f.begun:
		return f.Put(m, raw)
	case t == 0:
		return f.list(m, raw)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if t == wire.Deleted {
		err = f.Delete(m, raw)
	} else {
		err = f.Put(m, raw)
	}
	f.Progress(string(m.ResourceVersion))
	f.flush(resourceversion.Number(m.ResourceVersion))
	return err
}

func (f *feed) flush(rv uint64) {
	if f.Flush() > 0 {
		f.name(rv)
	}
}

// name tells the history that the store, at its present revision, is the state at rv. mu is held.
func (f *feed) name(rv uint64) {
	f.last = max(f.last, rv)
	f.history.Add(rv, f.store.Revision())
}

// BeginReplace implements reflector.Sink, as AbortReplace and EndReplace do.
func (f *feed) BeginReplace(rebase bool) {
	f.aside, f.before, f.other, f.back = nil, resourceversion.Number(f.store.ResourceVersion()), false, rebase && f.begun
	f.Writer.BeginReplace(rebase)
	if f.back {
		f.giveUp()
	}
}

func (f *feed) AbortReplace() {
	f.aside = nil
	f.Writer.AbortReplace()
}

func (f *feed) EndReplace(resourceVersion string) {
	end := resourceversion.Number(resourceVersion)
	if f.back || f.other && end >= f.before { // the server went back; in the second case it has come to these versions again
		f.AbortReplace()
		f.giveUp()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun {
		f.Writer.EndReplace(resourceVersion)
		f.last, f.begun = end, true
		f.history.Reset(end, f.store.Revision())
		f.synced()
		return
	}
	slices.SortStableFunc(f.aside, func(a, b listedObject) int { return cmp.Compare(a.rv, b.rv) })
	at := f.last
	if end > f.before {
		if from := max(f.before, at) + 1; from < end {
			f.history.AddGap(from) // nobody knows the states in between
		}
		at = end
	}
	// What is gone went at a resourceVersion that nobody knows. It comes first, with what the
	// client had before.
	f.history.BeginRelist(f.store.Revision(), at)
	f.Writer.EndReplace(resourceVersion)
	var m wire.Meta
	for _, o := range f.aside {
		if wire.ReadMeta(f.store.Encoding(), o.raw, &m) == nil && f.Put(&m, o.raw) == nil {
			f.Flush()
		}
	}
	f.name(at)
	f.history.EndRelist(f.store.Revision())
	f.aside = nil
}

// list takes an object of a relist. It marks a held object as still there, and puts aside a new
// one.
func (f *feed) list(m *wire.Meta, raw []byte) error {
	if f.back {
		return errWentBack
	}
	rv := resourceversion.Number(m.ResourceVersion)
	held, ok := f.store.Get(string(wire.AppendKey(nil, m)))
	same := ok && held.UID() == string(m.UID)
	var has uint64
	if ok {
		has, _ = held.ResourceVersionNumber()
	}
	f.other = f.other || rv > 0 && rv <= f.before && has != rv
	if same && has > rv {
		return f.Put(m, raw) // the store decides which is right
	}
	if unchanged, err := f.Unchanged(m, raw); unchanged || err != nil {
		return err
	}
	f.aside = append(f.aside, listedObject{rv, slices.Clone(raw)})
	if !same {
		return nil
	}
	var was wire.Meta
	old, err := held.Meta(&was, nil)
	if err != nil {
		return err
	}
	return f.Put(&was, old)
}
