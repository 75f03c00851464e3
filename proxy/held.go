package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
)

// held is one resource that the proxy holds, or is about to. One goroutine runs it, and one more guards each session.
type held struct {
	holdings *holdings
	gvr      schema.GroupVersionResource
	named    bool // in Options.Resources: held for good
	stop     context.CancelFunc
	poked    chan struct{} // of capacity one: the guard is to ask soon

	session  atomic.Pointer[session] // nil: not ready
	filling  atomic.Pointer[session] // the one that runs, ready or not
	used     atomic.Int64            // Unix nanoseconds of the last read
	watchers atomic.Int64
	starts   atomic.Uint64 // stores begun
	failures atomic.Uint64 // stores that never became ready
	events   atomic.Uint64
	initial  atomic.Uint64
	asked    atomic.Uint64 // questions for the upstream's newest resourceVersion, for the sake of readers
	watched  atomic.Uint64 // short WATCHes for the same
	stopping atomic.Bool
	past     atomic.Uint64          // the newest resourceVersion from before the upstream went back; 0: it never has
	failure  atomic.Pointer[string] // why it is not current; nil while it is
	refusal  atomic.Int32           // the standing while there is no session: reading, or why there is none
	wasHeld  atomic.Bool            // there was a session that was ready
	begun    time.Time              // when it was named
}

func newHeld(hs *holdings, gvr schema.GroupVersionResource, named bool) *held {
	h := &held{holdings: hs, gvr: gvr, named: named, poked: make(chan struct{}, 1), begun: time.Now()}
	h.refusal.Store(int32(reading))
	return h
}

// session is the life of one store: from a first list until only another one helps.
type session struct {
	kind      *kind
	warnings  *warnings
	store     *store.Store
	feed      *feed
	prover    *prover
	cache     *watchcache.Cache
	reflector *reflector.Reflector
	end       context.CancelCauseFunc
}

// heard is when the upstream was last heard of: what is held is at least as new as it was then, but for what is on its way.
func (s *session) heard() time.Time {
	at := s.reflector.Status().Heard
	if proven := time.Unix(0, s.prover.at.Load()); proven.After(at) {
		return proven
	}
	return at
}

// restartDelay paces the sessions of a resource.
const restartDelay = 5 * time.Second

// run holds the resource until ctx ends, or, if nobody named it, until it turns out that it cannot be held.
func (h *held) run(ctx context.Context) error {
	for {
		err := h.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		h.fail(err)
		h.holdings.log.Warn("a resource is not held", "resource", h.name(), "error", err.Error())
		if !h.named && !errors.Is(err, errWentBack) && !errors.Is(err, errTooMuchNews) && !errors.Is(err, errRedefined) {
			return err
		}
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
			return nil
		}
	}
}

// fail notes why the resource is not held.
func (h *held) fail(err error) {
	text := err.Error()
	h.failure.Store(&text)
	h.refusal.Store(int32(refusalOf(err)))
}

// end lets go of the resource.
func (h *held) end() {
	h.stopping.Store(true)
	h.stop()
}

func (h *held) name() string { return h.gvr.GroupResource().String() }

// once runs one session. The error says why it ended.
func (h *held) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gvr := h.gvr
	k, err := h.holdings.discoverer.kind(ctx, gvr)
	if err != nil {
		return fmt.Errorf("%s: %w", gvr, err)
	}
	warnings := &warnings{}
	upstream := rest.CopyConfig(h.holdings.upstream)
	upstream.Wrap(warnings.wrap)
	src, err := source.New(upstream, source.Resource{GVR: gvr, Encoding: k.encoding}, source.Options{Stats: &h.holdings.stats})
	if err != nil {
		return err
	}
	defer src.CloseIdleConnections()
	s := &session{kind: k, warnings: warnings, end: cancel, store: store.New(store.Config{Encoding: k.encoding, LogBytes: h.holdings.opts.LogBytes, KeepLog: true})}
	defer s.store.Close()
	s.feed = &feed{
		store: s.store, enc: k.encoding, history: watchcache.NewHistory(0, 0, 0), events: &h.events, initial: &h.initial,
		grow: h.grow, giveUp: func(err error) { h.giveUp(cancel, err) },
	}
	s.cache, err = watchcache.New(watchcache.Config{
		Resource: k.Resource, Store: s.store, Encoding: k.encoding, Clock: s.feed, History: s.feed.history,
		BookmarkInterval: h.holdings.opts.BookmarkInterval, MinWatch: h.holdings.opts.MinWatch, ExpireLate: h.holdings.opts.ExpireLate,
		LabelSets:     true,
		FlushInterval: h.holdings.opts.FlushInterval, Gathers: true,
	})
	if err != nil {
		return err
	}
	defer s.cache.Close()
	begun := time.Now()
	s.feed.synced = func() { h.ready(s, time.Since(begun)) }
	defer h.session.Store(nil)
	h.filling.Store(s)
	defer h.filling.Store(nil)
	h.starts.Add(1)
	s.reflector = reflector.New(src, s.store.Writer(store.Scope{}), reflector.Config{
		Name: gvr.String(), Encoding: k.encoding, Take: s.feed.take, Replacer: s.feed,
		OnStatus: func(st reflector.Status) { h.watchStatus(st, cancel) },
	})
	s.prover = newProver(ctx, src, s.feed, s.reflector.Status)
	s.prover.asked, s.prover.watched = &h.asked, &h.watched
	defer s.prover.end()
	var guard sync.WaitGroup
	guard.Go(func() { h.guard(ctx, k.definition, cancel) })
	err = s.reflector.Run(ctx)
	cancel(err)
	guard.Wait()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errWentBack):
		h.session.Store(nil)
		h.past.Store(max(h.past.Load(), s.feed.version()))
		s.cache.Expire()
	case errors.Is(cause, errAggregated): // whose resourceVersions are others
		h.session.Store(nil)
		s.cache.Expire()
	}
	if h.session.Load() == nil && !h.stopping.Load() {
		h.failures.Add(1)
	}
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// giveUp ends a session. Where the upstream went back those of the other resources end too: their own watches may come back only when the
// resourceVersions have come again, and then nothing shows them what was lost.
func (h *held) giveUp(cancel context.CancelCauseFunc, why error) {
	cancel(why)
	if !errors.Is(why, errWentBack) {
		return
	}
	for _, other := range h.holdings.all() {
		if s := other.filling.Load(); s != nil && other != h {
			s.end(why)
		}
	}
}

func (h *held) ready(s *session, took time.Duration) {
	h.holdings.initialization.WithLabelValues(h.gvr.Group, h.gvr.Resource).Observe(took.Seconds())
	h.failure.Store(nil)
	h.refusal.Store(int32(reading)) // when it ends
	h.wasHeld.Store(true)
	h.session.Store(s)
	if end := h.holdings.endBy.Load(); end != nil { // looked at behind the store, as drain looks for sessions behind its own
		s.cache.Drain(time.Until(*end))
	}
	h.holdings.log.Info("a resource is held", "resource", h.name(), "objects", s.store.Len(), "resourceVersion", s.store.ResourceVersion())
}

// finalAttempts is how many tries in a row must have been refused: an API server that has just started refuses for a moment what it has
// not loaded yet, custom resources and permissions.
const finalAttempts = 4

// finalMissing is finalAttempts for a resource that the upstream does not know any more, about which it is asked more often: 3 to 6 s.
const finalMissing = 8

// watchStatus ends a session that must not go on serving: the resource is gone, or the proxy may not read it any more.
func (h *held) watchStatus(st reflector.Status, cancel context.CancelCauseFunc) {
	if st.Synced && st.Phase != reflector.Watching {
		h.poke()
	}
	if st.Err == nil {
		h.failure.Store(nil)
		return
	}
	text := st.Err.Error()
	h.failure.Store(&text)
	if st.Attempts < finalAttempts || st.Attempts < finalMissing && errors.Is(st.Err, reflector.ErrUnknownResource) {
		return
	}
	for _, final := range []error{
		reflector.ErrUnknownResource, reflector.ErrForbidden, reflector.ErrUnauthorized, reflector.ErrRejected, reflector.ErrEncoding,
	} {
		if errors.Is(st.Err, final) {
			cancel(st.Err)
			return
		}
	}
}

// reads is the session that can answer, nil if none can, and notes the use.
func (h *held) reads() *session {
	h.used.Store(time.Now().UnixNano())
	return h.session.Load()
}
