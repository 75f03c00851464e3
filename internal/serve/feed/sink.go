package feed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// sink is the reflector's Sink. It writes the received objects to the store, and records in the
// history which revision of the store belongs to which resourceVersion. It is also the cache's
// Clock.
//
// The sink applies changes one by one, in the order of their resourceVersions. It sorts the changes
// that a relist finds. Otherwise a client could miss changes: its watch may end between two
// changes, and the client resumes at another replica from the last resourceVersion that it
// received. The other replica does not send changes with lower resourceVersions.
//
// If a relist lacks an object, the sink does not know when the object was deleted. It applies such
// deletions first. A watch sends them with the resourceVersion that its client already had. If the
// watch ends between two deletions, the client resumes from that resourceVersion. It may then
// receive deletions twice, but it misses none. The upstream may never have had the states that the
// store has between two changes of a relist. The history contains a gap instead of them: it lasts
// from the last state before the relist to the state that the relist returned.
type sink struct {
	*store.Writer
	store    *store.Store
	history  *watchcache.History
	onListed func()          // called once, after the first list
	onRefuse func(error)     // called without mu held, when only a new store helps, see refuse
	reserve  func(int) error // called before the sink stores bytes; if it fails, the sink refuses them
	stats    *Stats

	// mu is held while the store and the history change together, and while a caller reads both.
	mu sync.Mutex
	// listed says that the first list is complete. Only the reflector's goroutine writes it, with mu
	// held.
	listed    bool
	recorded  uint64                    // newest version in history; written like listed
	coalesced uint64                    // the upstream coalesces up to this version; see listed
	proven    uint64                    // no change up to this version is missing, see prove
	waiters   map[*proofWaiter]struct{} // one for each caller of Wait

	refused error // why the sink accepts nothing more; only for the reflector's goroutine

	// Only the reflector's goroutine uses these fields, for the relist in progress.
	relisted      []relistedObject
	versionBefore uint64 // the store's version before the relist
	otherPast     bool   // the relist has an object in an old version that the store did not have

	relistedBytes atomic.Int64 // size of relisted; at most maxRelistedBytes plus one object
}

// relistedObject is an object of a relist that differs from the stored one.
type relistedObject struct {
	rv  uint64
	raw []byte
}

// maxRelistedBytes bounds the objects that the sink buffers during a relist to sort them.
const maxRelistedBytes = 32 << 20

// These errors end a Feed. Only a new Feed, with an empty store, can then represent the upstream.
var (
	// ErrWentBack is returned when the upstream went back in time: it was restored from a backup.
	ErrWentBack = errors.New("the upstream went back in time")
	// ErrRelistTooLarge is returned when the changed objects of a relist exceed 32 MiB. If the relist
	// also shows another past (sink.otherPast), the sink returns ErrWentBack instead.
	ErrRelistTooLarge = errors.New("a relist found more changes than can be put in order")
)

// Observe implements watchcache.Clock.
func (s *sink) Observe(fn func(resourceVersion uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed { // an incomplete relist may have applied changes without a separate resourceVersion
		s.recordVersion(s.recorded)
	}
	fn(s.versionLocked())
}

// version returns the resourceVersion up to which the store is current.
func (s *sink) version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versionLocked()
}

func (s *sink) versionLocked() uint64 {
	return max(resourceversion.Number(s.store.ResourceVersion()), s.proven)
}

// Wait implements watchcache.Clock. When it returns nil, the history is current too.
func (s *sink) Wait(ctx context.Context, resourceVersion uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &proofWaiter{resourceVersion, func() { cancel(errProven) }}
	s.mu.Lock()
	if s.proven >= resourceVersion {
		w.done()
	}
	if s.waiters == nil {
		s.waiters = map[*proofWaiter]struct{}{}
	}
	s.waiters[w] = struct{}{}
	s.mu.Unlock()
	err := s.store.WaitResourceVersion(ctx, resourceversion.Format(resourceVersion))
	s.mu.Lock()
	delete(s.waiters, w)
	s.mu.Unlock()
	if err != nil && !errors.Is(context.Cause(ctx), errProven) {
		return err
	}
	s.Observe(func(uint64) {})
	return nil
}

// proofWaiter is a waiting call of Wait. A proof calls done to wake it.
type proofWaiter struct {
	rv   uint64
	done func()
}

// errProven is the cause that ends a wait for a proven resourceVersion.
var errProven = errors.New("proven")

// prove records that the store is the state at rv: it contains every change up to rv. prove does
// nothing before the first list, while the upstream coalesces changes, or if the store is already
// current up to rv.
func (s *sink) prove(rv uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed || s.coalesced > 0 || rv <= s.versionLocked() {
		return
	}
	s.proven = rv
	s.recordVersion(rv)
	for w := range s.waiters {
		if w.rv <= rv {
			w.done()
		}
	}
}

// contradicts reports whether an earlier proof says that no change exists at rv. A change at such a
// resourceVersion shows that the upstream went back in time. The caller holds s.mu.
func (s *sink) contradicts(rv uint64) bool {
	return rv > 0 && rv <= s.proven && rv > resourceversion.Number(s.store.ResourceVersion())
}

// Err implements reflector.Sink. If the sink has refused an object, Err returns an error, which
// ends the reflector. If the reflector continued, a later resourceVersion or the end of a list
// would claim that the store contains the refused object.
func (s *sink) Err() error {
	if s.refused != nil {
		return s.refused
	}
	return s.Writer.Err()
}

// refuse makes the sink accept nothing more, notifies the owner, and returns why. The caller must
// not hold s.mu, because the owner may call methods that lock the mu of this sink or of other
// sinks.
func (s *sink) refuse(why error) error {
	s.refused = why
	s.onRefuse(why)
	return why
}

// Take implements reflector.Sink.
func (s *sink) Take(t wire.EventType, m *wire.Meta, object []byte, _ any) error {
	if err := s.take(t, m, object); err != nil {
		return reflector.Refusal{Err: err}
	}
	return nil
}

func (s *sink) take(t wire.EventType, m *wire.Meta, object []byte) error {
	if err := s.reserve(len(object)); err != nil {
		return s.refuse(err)
	}
	switch {
	case t == 0 && !s.listed:
		s.stats.InitialObjects.Add(1)
		return s.Put(m, object)
	case t == 0:
		return s.takeListed(m, object)
	}
	s.stats.Events.Add(1)
	err := s.takeEvent(t, m, object)
	if err == ErrWentBack {
		return s.refuse(err)
	}
	return err
}

// takeEvent applies an event of a watch. It returns ErrWentBack, and applies nothing, if a proof
// contradicts the event.
func (s *sink) takeEvent(t wire.EventType, m *wire.Meta, object []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rv := resourceversion.Number(m.ResourceVersion)
	if s.contradicts(rv) {
		return ErrWentBack
	}
	if rv >= s.coalesced {
		s.settle()
	}
	before := s.store.Revision()
	err := s.Writer.Take(t, m, object, nil)
	if rv < s.coalesced {
		s.Flush()
		return err
	}
	s.Progress(string(m.ResourceVersion))
	if s.Flush(); s.store.Revision() > before { // Take itself applies a large object
		s.recordVersion(rv)
	}
	return err
}

// Coalesced implements reflector.Sink, for an upstream that is itself a watch cache of package
// watchcache. Such an upstream may relist its own upstream. The sink treats the changes of that
// relist like the changes of its own relists.
func (s *sink) Coalesced(resourceVersion string) {
	s.Writer.Coalesced(resourceVersion)
	s.mu.Lock()
	defer s.mu.Unlock()
	upTo := resourceversion.Number(resourceVersion)
	switch {
	case !s.listed:
	case upTo == 0:
		s.settle()
	default:
		if from := max(s.versionLocked(), s.recorded) + 1; s.coalesced == 0 && from < upTo {
			s.history.AddGap(from)
		}
		s.history.BeginRelist(s.store.Revision(), upTo)
		s.coalesced = max(s.coalesced, upTo)
	}
}

// settle records that the upstream sends each change separately from now on. The caller holds s.mu.
func (s *sink) settle() {
	if s.coalesced > 0 {
		s.history.EndRelist(s.store.Revision())
		s.recordVersion(s.coalesced) // ends the gap: perhaps only a bookmark follows
		s.coalesced = 0
	}
}

// recordVersion records in the history that the store is the state at rv, so that a WATCH can
// resume at rv. The caller holds s.mu.
func (s *sink) recordVersion(rv uint64) {
	s.recorded = max(s.recorded, rv)
	s.history.Add(rv, s.store.Revision())
}

// takeListed accepts an object of a relist. If the object is unchanged, takeListed marks the stored
// object as present. If the object is older than the stored one, takeListed passes it to the store.
// It buffers any other object until endRelist. If the buffered objects exceed maxRelistedBytes,
// takeListed calls refuse.
func (s *sink) takeListed(m *wire.Meta, object []byte) error {
	rv := resourceversion.Number(m.ResourceVersion)
	stored, ok := s.store.Get(string(wire.AppendKey(nil, m)))
	same := ok && stored.UID() == string(m.UID)
	var has uint64
	if ok {
		has, _ = stored.ResourceVersionNumber()
	}
	s.otherPast = s.otherPast || rv > 0 && rv <= s.versionBefore && has != rv
	if same && has > rv {
		return s.Put(m, object) // the store decides at the end of the relist which version is right
	}
	if unchanged, err := s.Unchanged(m, object); unchanged || err != nil {
		return err
	}
	if s.relistedBytes.Add(int64(len(object))) > maxRelistedBytes {
		s.relisted = nil
		why := ErrRelistTooLarge
		if s.otherPast { // the relist ends early, so endRelist cannot decide this
			why = ErrWentBack
		}
		return s.refuse(why)
	}
	s.relisted = append(s.relisted, relistedObject{rv, slices.Clone(object)})
	if !same {
		return nil // a new object: if the key had another object, the sink deletes that one first
	}
	var was wire.Meta
	raw, err := stored.Meta(&was, nil)
	if err != nil {
		return err
	}
	return s.Put(&was, raw) // marks that the object still exists, in another version
}

// BeginReplace implements reflector.Sink.
func (s *sink) BeginReplace(rebase bool) {
	s.dropRelisted()
	s.versionBefore, s.otherPast = resourceversion.Number(s.store.ResourceVersion()), false
	s.Writer.BeginReplace(rebase)
	if rebase && s.listed {
		_ = s.refuse(ErrWentBack)
	}
}

// AbortReplace implements reflector.Sink.
func (s *sink) AbortReplace() {
	s.dropRelisted()
	s.Writer.AbortReplace()
}

func (s *sink) dropRelisted() {
	s.relisted = nil
	s.relistedBytes.Store(0)
}

// EndReplace implements reflector.Sink.
func (s *sink) EndReplace(resourceVersion string) {
	if !s.listed {
		s.endFirstList(resourceVersion)
		s.onListed()
	} else if !s.endRelist(resourceVersion) {
		s.AbortReplace()
		_ = s.refuse(ErrWentBack)
	}
}

// endFirstList completes the first list.
func (s *sink) endFirstList(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Writer.EndReplace(resourceVersion)
	s.recorded = resourceversion.Number(resourceVersion)
	s.history.Reset(s.recorded, s.store.Revision())
	s.listed = true
}

// endRelist applies the changes that a relist found. If the relist shows another past, endRelist
// applies nothing and returns false. Another past means that the upstream was restored from a
// backup and has reached the same resourceVersions again. Watchers must then not receive the
// relisted objects as changes. There are two signs of another past. First, the relist has an object
// in an old version that the store did not have, although the list is at least as new as the store.
// Second, an object contradicts a proof.
func (s *sink) endRelist(resourceVersion string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := resourceversion.Number(resourceVersion)
	contradicts := func(o relistedObject) bool { return s.contradicts(o.rv) }
	if s.otherPast && end >= s.versionBefore || slices.ContainsFunc(s.relisted, contradicts) {
		return false
	}
	slices.SortStableFunc(s.relisted, func(a, b relistedObject) int { return cmp.Compare(a.rv, b.rv) })
	at := s.recorded
	if end > s.versionBefore {
		if from := max(s.versionBefore, at) + 1; from < end {
			s.history.AddGap(from)
		}
		at = end
	}
	s.history.BeginRelist(s.store.Revision(), at)
	s.Writer.EndReplace(resourceVersion)
	var m wire.Meta
	for _, o := range s.relisted {
		if wire.ReadMeta(s.store.Encoding(), o.raw, &m) != nil || s.Put(&m, o.raw) != nil {
			continue // cannot happen: takeListed has read o.raw; the object's next event would repair it
		}
		s.Flush() // apply changes one by one, in this order
	}
	s.recordVersion(at)
	s.history.EndRelist(s.store.Revision())
	s.coalesced = 0
	s.dropRelisted()
	return true
}
