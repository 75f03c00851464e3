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

// storeSink is the reflector's Sink. It writes what the reflector gets into a store. It also tells
// the history of the watch cache which revision belongs to which resourceVersion, as package
// watchcache demands of whoever writes: changes come one by one, in the order of their
// resourceVersions, those of a relist too.
type storeSink struct {
	*store.Writer
	store      *store.Store
	history    *watchcache.History
	onListed   func() // called after the first list
	endSession func() // called when the server went back: only a new store helps

	mu       sync.Mutex // held while store and history change
	listed   bool
	recorded uint64
	relisted []relistedObject
	// About the relist under way: versionBefore is the resourceVersion that was current before it.
	// otherPast says that the list has an object from up to then that was not held.
	versionBefore uint64
	otherPast     bool
	wentBack      bool // it comes from a server that went back: nothing of it is taken
}

var errWentBack = errors.New("the server went back")

type relistedObject struct {
	rv  uint64
	raw []byte
}

// Observe implements watchcache.Clock.
func (s *storeSink) Observe(fn func(uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed {
		s.record(s.recorded)
	}
	fn(resourceversion.Number(s.store.ResourceVersion()))
}

// Wait implements watchcache.Clock.
func (s *storeSink) Wait(ctx context.Context, rv uint64) error {
	if err := s.store.WaitResourceVersion(ctx, resourceversion.Format(rv)); err != nil {
		return err
	}
	s.Observe(func(uint64) {})
	return nil
}

// Take implements reflector.Sink. It returns each error as a Refusal, after which no list follows.
func (s *storeSink) Take(t wire.EventType, m *wire.Meta, raw []byte, _ any) error {
	if err := s.take(t, m, raw); err != nil {
		return reflector.Refusal{Err: err}
	}
	return nil
}

func (s *storeSink) take(t wire.EventType, m *wire.Meta, raw []byte) error {
	switch {
	case t == 0 && !s.listed:
		return s.Put(m, raw)
	case t == 0:
		return s.list(m, raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if t == wire.Deleted {
		err = s.Delete(m, raw)
	} else {
		err = s.Put(m, raw)
	}
	s.Progress(string(m.ResourceVersion))
	s.flush(resourceversion.Number(m.ResourceVersion))
	return err
}

func (s *storeSink) flush(rv uint64) {
	if s.Flush() > 0 {
		s.record(rv)
	}
}

// record tells the history that the store, at its present revision, is the state at rv. mu is held.
func (s *storeSink) record(rv uint64) {
	s.recorded = max(s.recorded, rv)
	s.history.Add(rv, s.store.Revision())
}

// BeginReplace implements reflector.Sink, as AbortReplace and EndReplace do.
func (s *storeSink) BeginReplace(rebase bool) {
	s.relisted, s.versionBefore, s.otherPast, s.wentBack = nil, resourceversion.Number(s.store.ResourceVersion()), false, rebase && s.listed
	s.Writer.BeginReplace(rebase)
	if s.wentBack {
		s.endSession()
	}
}

func (s *storeSink) AbortReplace() {
	s.relisted = nil
	s.Writer.AbortReplace()
}

func (s *storeSink) EndReplace(resourceVersion string) {
	end := resourceversion.Number(resourceVersion)
	// The server went back. In the second case it has come to these versions again.
	if s.wentBack || s.otherPast && end >= s.versionBefore {
		s.AbortReplace()
		s.endSession()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		s.Writer.EndReplace(resourceVersion)
		s.recorded, s.listed = end, true
		s.history.Reset(end, s.store.Revision())
		s.onListed()
		return
	}
	slices.SortStableFunc(s.relisted, func(a, b relistedObject) int { return cmp.Compare(a.rv, b.rv) })
	at := s.recorded
	if end > s.versionBefore {
		if from := max(s.versionBefore, at) + 1; from < end {
			s.history.AddGap(from) // nobody knows the states in between
		}
		at = end
	}
	// What is gone went at a resourceVersion that nobody knows. It comes first, with what the
	// client had before.
	s.history.BeginRelist(s.store.Revision(), at)
	s.Writer.EndReplace(resourceVersion)
	var m wire.Meta
	for _, o := range s.relisted {
		if wire.ReadMeta(s.store.Encoding(), o.raw, &m) == nil && s.Put(&m, o.raw) == nil {
			s.Flush()
		}
	}
	s.record(at)
	s.history.EndRelist(s.store.Revision())
	s.relisted = nil
}

// list takes an object of a relist. It marks a held object as still there, and puts aside a new
// one.
func (s *storeSink) list(m *wire.Meta, raw []byte) error {
	if s.wentBack {
		return errWentBack
	}
	rv := resourceversion.Number(m.ResourceVersion)
	held, ok := s.store.Get(string(wire.AppendKey(nil, m)))
	same := ok && held.UID() == string(m.UID)
	var has uint64
	if ok {
		has, _ = held.ResourceVersionNumber()
	}
	s.otherPast = s.otherPast || rv > 0 && rv <= s.versionBefore && has != rv
	if same && has > rv {
		return s.Put(m, raw) // the store decides which is right
	}
	if unchanged, err := s.Unchanged(m, raw); unchanged || err != nil {
		return err
	}
	s.relisted = append(s.relisted, relistedObject{rv, slices.Clone(raw)})
	if !same {
		return nil
	}
	var was wire.Meta
	old, err := held.Meta(&was, nil)
	if err != nil {
		return err
	}
	return s.Put(&was, old)
}
