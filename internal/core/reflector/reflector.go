package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// Reflector keeps a sink equal to the objects of one source. Its methods are safe for concurrent
// use.
type Reflector struct {
	src  source.Source
	sink Sink
	cfg  Config
	// The server coalesces changes up to this version; "" if it does not. Only the goroutine of Run
	// uses it.
	coalesced string
	// Config.Server's number of restores when the last list was requested. Only the goroutine of Run
	// uses it
	seen uint64

	probeLimit probeLimit

	mu          sync.Mutex
	status      Status
	relists     Relists
	transitions transitionRing
	running     bool
}

// New returns a reflector. It sends no request before Run. Until Run has returned, no other code
// may use the sink. If the sink already has a resourceVersion, Run resumes there.
func New(src source.Source, sink Sink, cfg Config) *Reflector {
	return &Reflector{
		src: src, sink: sink, cfg: cfg.withDefaults(),
		status: Status{Name: cfg.Name, Mode: cfg.Mode, ResourceVersion: sink.ResourceVersion(), Remaining: -1, Since: time.Now()},
	}
}

func (r *Reflector) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Relists returns how many complete states the reflector received after its first one, by reason.
func (r *Reflector) Relists() Relists {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.relists
}

// Transitions returns the most recent transitions, at most 32, ordered by time.
func (r *Reflector) Transitions() []Transition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.transitions.copied()
}

// Run lists and watches until ctx ends, and then returns the cause of ctx. It blocks.
//
// No error of a server ends Run. If the sink fails, Run returns the sink's error. While another Run
// has not returned, Run returns ErrRunning immediately. When Run returns, its request has ended and
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
	defer func() { // in case the sink panics
		d.close()
		d.leaveList()
	}()
	s := newState(&r.cfg, d.sinkRV)
	published := s
	for in := (input{typ: inBegin, jitter: r.cfg.Backoff.Random()}); ctx.Err() == nil && d.fatal == nil; {
		before := s
		var actions []action
		s, actions = step(before, in)
		// before publish, because OnStatus may look for the reported version in the sink
		ask := d.perform(actions)
		if d.fatal != nil {
			published = before // the sink has not accepted all actions of the step
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

// newestVersion requests the server's newest resourceVersion. It waits for the response as long as
// probeLimit allows.
func (r *Reflector) newestVersion(ctx context.Context, a askNewest) (string, error) {
	return r.probeLimit.within(ctx, func(ctx context.Context) (string, error) {
		return r.src.NewestVersion(ctx, a.options(r.cfg.Query))
	})
}

// publish copies the state to the Status. It calls OnStatus unless only the resourceVersion has
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

// unlock unlocks r.mu. If notify is true, it then calls Config.OnStatus.
func (r *Reflector) unlock(notify bool) {
	status := r.status
	r.mu.Unlock()
	if notify && r.cfg.OnStatus != nil {
		r.cfg.OnStatus(status)
	}
}

// skipped records the number of objects that could not be read, and the first of their errors.
func (r *Reflector) skipped(n int, first error) {
	r.mu.Lock()
	notify := n != r.status.Skipped
	r.status.Skipped, r.status.SkippedErr = n, first
	r.status.judge()
	r.unlock(notify)
}

// unwanted records the number of received objects that Config.Keep did not want.
func (r *Reflector) unwanted(n int64) {
	r.mu.Lock()
	r.status.Unwanted = n
	r.mu.Unlock()
}

// queued records whether the list waits until lists of other reflectors have ended.
func (r *Reflector) queued(is bool) {
	r.mu.Lock()
	r.status.Queued = is
	r.mu.Unlock()
}

// heard records that the server has sent something just now.
func (r *Reflector) heard() {
	r.mu.Lock()
	r.status.Heard = time.Now()
	r.mu.Unlock()
}

// current records that the store contains all changes that the server made before the time at.
func (r *Reflector) current(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.After(r.status.CurrentAt) {
		r.status.CurrentAt = at
	}
}

// answered records that the server has responded to a probe while a watch is open. It clears
// ErrEnded in the Status. If current is true, the probe found nothing newer, and ErrTooManyRequests
// is cleared too. OnStatus is called at the next transition only.
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

// listed records the progress of the current list. remaining is the number of objects on further
// pages, or -1 if the server does not report it.
func (r *Reflector) listed(objects, remaining int64) {
	r.mu.Lock()
	r.status.Listed, r.status.Remaining = objects, remaining
	r.mu.Unlock()
}

func (r *Reflector) itemType(t wire.TypeMeta) {
	r.mu.Lock()
	r.status.ItemType = t
	r.mu.Unlock()
}

// setResourceVersion records the version that the sink is current to.
func (r *Reflector) setResourceVersion(rv string) {
	r.mu.Lock()
	r.status.ResourceVersion = rv
	r.mu.Unlock()
}
