package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// Reflector keeps a sink equal to what one source has. All its methods are safe for
// concurrent use.
type Reflector struct {
	src       source.Source
	sink      Sink
	cfg       Config
	coalesced string // up to here the server coalesces changes; "": it does not. Of Run's goroutine
	seen      uint64 // of Config.Server's restores: those before the last list. Of Run's goroutine

	probeLimit probeLimit

	mu          sync.Mutex
	status      Status
	relists     Relists
	transitions transitionRing
	running     bool
}

// New returns a reflector. It makes no request before Run. The sink belongs to the reflector until
// Run has returned. A sink that was used before is resumed at its resourceVersion.
func New(src source.Source, sink Sink, cfg Config) *Reflector {
	return &Reflector{
		src: src, sink: sink, cfg: cfg.withDefaults(),
		status: Status{Name: cfg.Name, Mode: cfg.Mode, ResourceVersion: sink.ResourceVersion(), Remaining: -1, Since: time.Now()},
	}
}

// Status returns what the reflector is doing now.
func (r *Reflector) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Relists returns how many complete states came after the first, by reason.
func (r *Reflector) Relists() Relists {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.relists
}

// Transitions returns the last transitions, 32 at most, the least recent first.
func (r *Reflector) Transitions() []Transition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.transitions.copied()
}

// Run lists and watches until ctx ends, and then returns the cause of ctx. It blocks.
//
// Nothing that a server does ends Run. It also returns the sink's Err when there is one, and
// ErrRunning at once while another Run is under way. When Run returns, its request has ended and
// its timers are stopped. Run may be called again after it has returned.
func (r *Reflector) Run(ctx context.Context) error {
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return ErrRunning
	}
	r.running = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
	}()
	d := &driver{r: r, ctx: ctx, sinkRV: r.sink.ResourceVersion()}
	defer func() { // where the sink panics
		d.close()
		d.leaveList()
	}()
	s := newState(&r.cfg, d.sinkRV)
	published := s
	for in := (input{typ: inBegin, jitter: r.cfg.Backoff.Random()}); ctx.Err() == nil && d.fatal == nil; {
		before := s
		var actions []action
		s, actions = step(before, in)
		ask := d.perform(actions) // first: OnStatus finds in the sink what has ended
		if d.fatal != nil {
			published = before // the sink has refused the rest
			break
		}
		published = s
		r.publish(in, before, s, ask)
		in = d.next(ask)
	}
	d.close()
	d.leaveList()
	if s.replacing {
		r.sink.AbortReplace()
	}
	r.sink.Flush()
	stopped := published
	stopped.phase = Stopped
	r.publish(input{}, published, stopped, nil)
	if d.fatal != nil {
		return d.fatal
	}
	return context.Cause(ctx)
}

// newestVersion asks for the server's newest resourceVersion. It waits as long as probeLimit
// allows.
func (r *Reflector) newestVersion(ctx context.Context, reaches string) (string, error) {
	return r.probeLimit.within(ctx, func(ctx context.Context) (string, error) { return r.src.NewestVersion(ctx, reaches) })
}

// publish copies the state to the Status. It tells of the Status if more than its resourceVersion
// has changed.
func (r *Reflector) publish(in input, before, s state, ask action) {
	r.mu.Lock()
	if t, ok := newTransition(in, &before, &s, ask); ok {
		r.transitions.add(t)
	}
	r.relists[before.reason] += s.relists - before.relists
	st := &r.status
	notify := before.phase != s.phase || before.err != s.err || before.mode != s.mode || before.synced != s.synced ||
		before.tries() != s.tries() || before.relists != s.relists
	if st.Phase != s.phase || before.err != s.err {
		st.Since = time.Now()
	}
	st.Phase, st.Mode, st.Synced = s.phase, s.mode, s.synced
	if before.rv != s.rv {
		st.ResourceVersion = s.rv
	}
	st.Attempts, st.Relists = s.tries(), s.relists
	st.NextRetry = time.Time{}
	if w, ok := ask.(wait); ok {
		st.NextRetry = time.Now().Add(w.d)
		notify = true
	}
	st.failure = nil
	if s.err != nil {
		st.failure = s.err
		if before.err != s.err {
			st.LastErr, st.LastErrAt = s.err, time.Now()
		}
	}
	st.judge()
	r.unlock(notify)
}

// unlock unlocks mu. If notify is set, it calls Config.OnStatus.
func (r *Reflector) unlock(notify bool) {
	status := r.status
	r.mu.Unlock()
	if notify && r.cfg.OnStatus != nil {
		r.cfg.OnStatus(status)
	}
}

// skipped notes how many objects could not be read, and the first error.
func (r *Reflector) skipped(n int, first error) {
	r.mu.Lock()
	notify := n != r.status.Skipped
	r.status.Skipped, r.status.SkippedErr = n, first
	r.status.judge()
	r.unlock(notify)
}

// unwanted notes how many objects came that Config.Keep does not want.
func (r *Reflector) unwanted(n int64) {
	r.mu.Lock()
	r.status.Unwanted = n
	r.mu.Unlock()
}

// queued notes whether the list waits for those of other reflectors.
func (r *Reflector) queued(is bool) {
	r.mu.Lock()
	r.status.Queued = is
	r.mu.Unlock()
}

// heard notes that the server has answered, or a watch has brought something.
func (r *Reflector) heard() {
	r.mu.Lock()
	r.status.Heard = time.Now()
	r.mu.Unlock()
}

// current notes that the store has the server's state at a time, or a newer one.
func (r *Reflector) current(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.After(r.status.CurrentAt) {
		r.status.CurrentAt = at
	}
}

// answered notes that the server has answered while a watch stands. That ends ErrEnded in the
// Status, and ErrTooManyRequests if the answer shows that nothing is missing. OnStatus is only
// called at the next transition.
func (r *Reflector) answered(current bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := &r.status
	st.Heard = time.Now()
	if errors.Is(st.failure, ErrEnded) || current && errors.Is(st.failure, ErrTooManyRequests) {
		st.failure = nil
		st.judge()
	}
}

// listed notes how far the list under way is. remaining is -1 when the server does not say.
func (r *Reflector) listed(objects, remaining int64) {
	r.mu.Lock()
	r.status.Listed, r.status.Remaining = objects, remaining
	r.mu.Unlock()
}

// itemType notes the apiVersion and kind of the objects.
func (r *Reflector) itemType(t wire.TypeMeta) {
	r.mu.Lock()
	r.status.ItemType = t
	r.mu.Unlock()
}

// setResourceVersion notes the resourceVersion that the writer is current to.
func (r *Reflector) setResourceVersion(rv string) {
	r.mu.Lock()
	r.status.ResourceVersion = rv
	r.mu.Unlock()
}
