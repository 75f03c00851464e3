package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// Reflector keeps a sink equal to the objects of one source. All its methods are safe for
// concurrent use.
type Reflector struct {
	src  source.Source
	sink Sink
	cfg  Config
	// The server coalesces changes up to this version; "": it does not. Run's goroutine only.
	coalesced string
	seen      uint64 // Config.Server's count of restores before the last list. Run's goroutine only

	probeLimit probeLimit

	mu          sync.Mutex
	status      Status
	relists     Relists
	transitions transitionRing
	running     bool
}

// New returns a reflector. It makes no request before Run. Until Run has returned, no other code
// may use the sink. If the sink was used before, Run resumes at the sink's resourceVersion.
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

// Relists returns the number of complete states after the first one, by reason.
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
// No error or answer of a server ends Run. Run also returns the sink's Err when the sink fails, and
// ErrRunning immediately while another Run is under way. When Run returns, its request has ended
// and its timers are stopped. Run may be called again after it has returned.
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
	defer func() { // if the sink panics
		d.close()
		d.leaveList()
	}()
	s := newState(&r.cfg, d.sinkRV)
	published := s
	for in := (input{typ: inBegin, jitter: r.cfg.Backoff.Random()}); ctx.Err() == nil && d.fatal == nil; {
		before := s
		var actions []action
		s, actions = step(before, in)
		ask := d.perform(actions) // before publish: OnStatus must find in the sink what publish reports
		if d.fatal != nil {
			published = before // the sink has refused some of the actions
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

// newestVersion asks the source for the server's newest resourceVersion. It waits for the answer as
// long as probeLimit allows.
func (r *Reflector) newestVersion(ctx context.Context, reaches string) (string, error) {
	return r.probeLimit.within(ctx, func(ctx context.Context) (string, error) { return r.src.NewestVersion(ctx, reaches) })
}

// publish copies the state to the Status. It calls OnStatus if more than the resourceVersion has
// changed.
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

// skipped records how many objects could not be read, and the first error.
func (r *Reflector) skipped(n int, first error) {
	r.mu.Lock()
	notify := n != r.status.Skipped
	r.status.Skipped, r.status.SkippedErr = n, first
	r.status.judge()
	r.unlock(notify)
}

// unwanted records how many received objects Config.Keep does not want.
func (r *Reflector) unwanted(n int64) {
	r.mu.Lock()
	r.status.Unwanted = n
	r.mu.Unlock()
}

// queued records whether the list waits for the lists of other reflectors.
func (r *Reflector) queued(is bool) {
	r.mu.Lock()
	r.status.Queued = is
	r.mu.Unlock()
}

// heard records that the server has answered, or a watch has sent something.
func (r *Reflector) heard() {
	r.mu.Lock()
	r.status.Heard = time.Now()
	r.mu.Unlock()
}

// current records that the store has the server's state of time at, or a newer one.
func (r *Reflector) current(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.After(r.status.CurrentAt) {
		r.status.CurrentAt = at
	}
}

// answered records that the server answered a probe while a watch is open. It clears ErrEnded in
// the Status, and also ErrTooManyRequests if the answer shows that the store is current. OnStatus
// is only called at the next transition.
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

// listed records the progress of the list under way. remaining is -1 if the server does not report
// it.
func (r *Reflector) listed(objects, remaining int64) {
	r.mu.Lock()
	r.status.Listed, r.status.Remaining = objects, remaining
	r.mu.Unlock()
}

// itemType records the apiVersion and kind of the objects.
func (r *Reflector) itemType(t wire.TypeMeta) {
	r.mu.Lock()
	r.status.ItemType = t
	r.mu.Unlock()
}

// setResourceVersion records the resourceVersion that the sink is current to.
func (r *Reflector) setResourceVersion(rv string) {
	r.mu.Lock()
	r.status.ResourceVersion = rv
	r.mu.Unlock()
}
