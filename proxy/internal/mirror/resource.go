package mirror

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/serve/feed"
)

// Resource is one resource that the proxy caches, or is about to cache. It drives step: one
// goroutine runs its sessions, and another one monitors the current session. Both end when the
// context of run ends. Resource is safe for concurrent use.
type Resource struct {
	settings
	mirror      *Mirror
	ctx         context.Context    // run ends with it
	stop        context.CancelFunc // ends ctx
	created     time.Time          // when it was first requested
	wake        chan struct{}      // has capacity one; wakes the monitor
	FeedStats   feed.Stats         // summed over all sessions
	definitions definitionHistory  // its sessions use it one after the other

	mu        sync.Mutex            // serializes steps. A goroutine that holds it locks nothing else
	published atomic.Pointer[State] // the last state; never nil
	// changed is closed when another state is published; nil: no request waits for that.
	changed chan struct{}

	lastRead atomic.Int64 // Unix nanoseconds
	watchers atomic.Int64
	waiting  atomic.Int64 // requests that wait until the resource is read again
}

func newResource(m *Mirror, gvr schema.GroupVersionResource, of settings) *Resource {
	of.restart = m.cfg.Timeouts.Restart
	res := &Resource{
		settings: of, mirror: m, created: time.Now(), wake: make(chan struct{}, 1),
	}
	res.ctx, res.stop = context.WithCancel(context.Background())
	res.published.Store(newState(gvr, of))
	return res
}

// GVR returns the resource in the version in which it is cached. The version is empty until the
// upstream has reported which version it prefers. It changes only while the resource has no
// session.
func (res *Resource) GVR() schema.GroupVersionResource { return res.State().gvr }

func (res *Resource) name() string { return res.GVR().GroupResource().String() }

// State returns the last published state. The caller must not change it.
func (res *Resource) State() *State { return res.published.Load() }

// Serving returns the session that can answer reads, or nil.
func (res *Resource) Serving() *Session { return res.State().serving() }

// read returns the last published state, and records that a client reads the resource.
func (res *Resource) read() *State {
	res.lastRead.Store(time.Now().UnixNano())
	return res.State()
}

// take calls step with the given input, publishes the new state and performs the actions, except an
// action that blocks. It returns that action, which the goroutine of run must perform, or nil if
// there is none.
func (res *Resource) take(in input) (next action) {
	in.at = time.Now()
	res.mu.Lock()
	before := res.State()
	after, actions := step(*before, in)
	res.published.Store(&after)
	if res.changed != nil {
		close(res.changed)
		res.changed = nil
	}
	res.mu.Unlock()
	s := cmp.Or(after.Session, before.Session)
	for _, a := range actions {
		if !res.perform(a, s) {
			next = a
		}
	}
	return next
}

// perform performs an action about session s and returns true. If the action blocks, perform does
// nothing and returns false.
func (res *Resource) perform(a action, s *Session) bool {
	switch a := a.(type) {
	case end:
		s.End(a.cause)
	case endOthers:
		res.mirror.endOthers(res)
	case closeSession:
		if a.expires {
			s.Cache().Expire()
		}
		s.Close()
	case cached:
		res.noteCached(s)
	case move:
		res.definitions = definitionHistory{}
		res.mirror.move(res, a.from)
	case checkSoon:
		select {
		case res.wake <- struct{}{}:
		default:
		}
	case cancel:
		res.stop()
	case note:
		res.log(a)
	default:
		return false
	}
	return true
}

func (res *Resource) log(a note) {
	if a.err != nil {
		res.mirror.cfg.Log.Warn(a.text, "resource", res.name(), "error", a.err.Error())
		return
	}
	res.mirror.cfg.Log.Info(a.text, "resource", res.name(), "behind", a.behind.Round(time.Millisecond).String())
}

// run drives the resource until ctx ends. It returns an error if a resource on demand cannot be
// cached.
func (res *Resource) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, res.stop)()
	ctx = res.ctx
	next := res.take(input{typ: inBegin})
	for {
		if f, ok := next.(finish); ok {
			return f.err
		}
		in := res.block(ctx, next)
		if ctx.Err() != nil {
			res.take(input{typ: inStop})
		}
		next = res.take(in)
	}
}

// block performs an action that blocks, until ctx ends, and returns the result as an input.
func (res *Resource) block(ctx context.Context, a action) input {
	switch a := a.(type) {
	case ask:
		version, err := res.mirror.discoverer.preferredVersion(ctx, res.GVR().Group)
		return input{typ: inPreferred, err: err, version: version}
	case describe:
		s, err := res.newSession(ctx)
		return input{typ: inDescribed, session: s, err: err}
	case run:
		return res.runSession(res.State().Session)
	case sleep:
		pause(ctx, a.d)
	}
	return input{typ: inWoke}
}

// runSession runs a session until it has ended.
func (res *Resource) runSession(s *Session) input {
	var monitoring sync.WaitGroup
	monitoring.Go(func() { res.monitor(s) })
	s.End(s.Run(s.ctx))
	monitoring.Wait()
	cause := context.Cause(s.ctx)
	// The restore tracker is notified of the end before the session is withdrawn. Otherwise a watch
	// from before a restore could be forwarded in between.
	restores := &res.mirror.Restores
	restores.SessionEnded(res.GVR(), s.Version(), errors.Is(cause, feed.ErrWentBack))
	if errors.Is(cause, errAggregated) {
		restores.replaced(res.GVR())
	}
	return input{typ: inEnded, err: cause, objects: s.Store().Len()}
}

// listed records that the first list of a session is complete.
func (res *Resource) listed(s *Session) {
	res.mirror.initSeconds.WithLabelValues(res.GVR().Group, res.GVR().Resource).Observe(time.Since(s.begun).Seconds())
	// The last session may have ended for another reason before it could find the restore, for
	// instance because the upstream has another version now. The sessions of other resources must end
	// before this session serves.
	if res.mirror.Restores.revealsRestore(res.GVR(), s.Version()) {
		res.mirror.endOthers(res)
	}
	res.take(input{typ: inListed})
}

// noteCached must be called after session s has started to serve. It first notifies the restore
// tracker. If the tracker were notified before s serves, it would let a watch from before a restore
// resume. noteCached then reads the time of a drain. Drain stores that time before it looks for
// sessions, so either Drain finds s, or noteCached finds the time.
func (res *Resource) noteCached(s *Session) {
	res.mirror.Restores.SessionBegan(res.GVR())
	if by := res.mirror.drainBy.Load(); by != 0 {
		s.Cache().Drain(time.Until(time.Unix(0, by)))
	}
	res.mirror.cfg.Log.Info("a resource is cached", "resource", res.name(), "objects", s.Store().Len(), "resourceVersion", s.Store().ResourceVersion())
}

// Refuse ends the session, because its feed cannot represent the upstream.
func (res *Resource) Refuse(why error) { res.take(input{typ: inRefused, err: why}) }

// Watching returns how many clients watch the resource.
func (res *Resource) Watching() int { return int(res.watchers.Load()) }

// Waiting returns how many requests wait until the proxy has read the resource again.
func (res *Resource) Waiting() int { return int(res.waiting.Load()) }

// nextState returns a channel that is closed when another state is published.
func (res *Resource) nextState() <-chan struct{} {
	res.mu.Lock()
	defer res.mu.Unlock()
	if res.changed == nil {
		res.changed = make(chan struct{})
	}
	return res.changed
}

// minCheckInterval is how long the monitor waits before a check that checkSoon has requested.
const minCheckInterval = 2 * time.Second

// monitor checks which server serves the resource and how the resource is defined, until the
// session ends. It checks periodically, and soon after an upstream watch has ended.
func (res *Resource) monitor(s *Session) {
	m := res.mirror
	defined := newDefinitionCheck(&res.definitions, s.Info.definition, m.cfg.Timeouts.Settle, s.begun)
	tick := time.Tick(m.cfg.Timeouts.Origin)
	for {
		select {
		case <-tick:
		case <-res.wake:
			pause(s.ctx, minCheckInterval)
		case <-s.ctx.Done():
			return
		}
		in := input{typ: inChecked}
		if in.redefined = defined.redefines(m.discoverer.definition(s.ctx, res.GVR()), time.Now()); !in.redefined {
			in.err = m.discoverer.servedLocally(s.ctx, res.GVR().GroupVersion())
		}
		if s.ctx.Err() != nil {
			return
		}
		res.take(in)
	}
}

// pause blocks for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
