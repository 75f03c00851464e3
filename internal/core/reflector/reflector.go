package reflector

import (
	"context"
	"errors"
	"fmt"
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
	// coalesced is the version up to which the server coalesces changes; "" if it does not. Only the
	// goroutine of Run uses it.
	coalesced string
	// seen is the number of restores that Config.Server had counted when the last list was requested.
	// Only the goroutine of Run uses it.
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

// SetShard calls SetShard of the reflector's Config. It must be called before Run.
func (r *Reflector) SetShard(selector string, keep func(*wire.Meta) bool) {
	r.cfg.SetShard(selector, keep)
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
// No error of a server ends Run. If the sink fails, Run returns the sink's error. If another call
// of Run has not returned, Run returns ErrRunning immediately. When Run returns, its request has
// ended and its timers are stopped. Run may be called again after it has returned.
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

// publish copies the state to the Status. It calls Config.OnStatus for the changes that the comment
// of that field lists.
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

// unwanted sets Status.Unwanted to n: the number of received objects that Config.Keep did not want.
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
// is cleared too. It does not call Config.OnStatus.
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

// Sink is what a reflector writes to. A store's Writer is a Sink. To change objects before they are
// stored, or to control how a relist updates a store, embed the Writer in another type. All methods
// are called in the goroutine of Run, unless their comments say otherwise, so a method that blocks
// delays Run.
type Sink interface {
	// ResourceVersion returns the version that the sink is current to, at which Run resumes. If it
	// returns "", Run starts with a list.
	ResourceVersion() string
	// Take receives an object. t is 0 for an item of a list, and otherwise the type of the event. The
	// metadata of a deleted object has the resourceVersion of the deletion. m and object are valid
	// during the call. If the source returns Go values instead of bytes, value is set and object is
	// nil. If Take returns an error, the reflector skips the object and counts it in Status.Skipped.
	// If the object is from an event, the reflector then lists, because the list may contain the
	// object intact. If the error is a Refusal, it does not list. A Refusal may end the running list.
	Take(t wire.EventType, m *wire.Meta, object []byte, value any) error
	// DeleteNamesake receives an object that Config.Keep does not want, and deletes the stored object
	// of the same name. The stored object is a different, older one, whose deletion event was missed.
	// m is the metadata of the unwanted object.
	DeleteNamesake(m *wire.Meta, object []byte) error
	// Flush makes the objects that Take received visible to readers. The reflector calls it before
	// each wait for the network.
	Flush() (changes int)
	// Progress says that the sink has received all changes up to resourceVersion.
	Progress(resourceVersion string)
	// Coalesced says that the server coalesces the following changes, up to resourceVersion: it sends
	// only one event for each key, deletions first. When the reflector has reached that version, or a
	// list has ended, it calls Coalesced with "". It does not call Progress before that.
	Coalesced(resourceVersion string)

	// BeginReplace starts a list, or initial events. rebase is true if the server has gone back in
	// time. Then a listed object replaces the stored one even if the stored one has a higher
	// resourceVersion.
	BeginReplace(rebase bool)
	// EndReplace says that the list is complete and current to resourceVersion. Stored objects that
	// Take has not received since BeginReplace do not exist on the server.
	EndReplace(resourceVersion string)
	// AbortReplace says that the list failed before its end. The sink must not delete objects that the
	// list did not contain.
	AbortReplace()

	// Err returns nil while the sink accepts writes, and otherwise the error that prevents them. An
	// error ends Run.
	Err() error

	// ListRequested says that the reflector now requests a LIST, or a WATCH with initial events, whose
	// objects it will pass between the next BeginReplace and EndReplace. If another writer finds a
	// restore of the server after this call, the listed state may be older than that restore.
	ListRequested()
	// Outdated returns true if, after this sink's last ListRequested, another writer of the same store
	// has found that the server went back in time. WhenOutdated sets a function that is called once
	// when another writer finds this, in the goroutine of that writer. nil removes the function.
	Outdated() bool
	WhenOutdated(f func())
	// Behind reports whether a running reader, such as a handler, does not keep up with the changes.
	// read is the number of changes that such readers have read, on average.
	Behind() (behind bool, read uint64)
}

// Refusal is an error of Sink.Take for an object that the sink would also refuse if a list
// contained it. So the reflector does not list after a Refusal.
type Refusal struct {
	Err error
	// EndsList, for an object of a list or of initial events, ends the list with the error: the
	// reflector waits, and lists again.
	EndsList bool
}

func (r Refusal) Error() string { return fmt.Sprintf("refused: %v", r.Err) }

// Unwrap returns the reason of the refusal.
func (r Refusal) Unwrap() error { return r.Err }
