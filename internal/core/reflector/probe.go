package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// errProbed is the cause with which a probe ends its watch.
var errProbed = errors.New("a probe broke the watch off")

// probe asks a server for its newest resourceVersion while a watch is open and silent. An open
// watch alone does not distinguish a server that has no changes from a server that is gone, hangs,
// or is older than a version it reported before. The probe also breaks off the watch when another
// reflector of the store, or of the server, finds that the server went back. If bookmarks only
// repeat the store's version, the probe asks as well, but does not break off the watch when the
// server is ahead: changes may be in transit, or may concern other resources.
//
// It has one timer, whose function makes at most one request at a time. stop ends the timer and the
// request.
type probe struct {
	r     *Reflector
	ctx   context.Context         // of the watch
	broke context.CancelCauseFunc // breaks off the watch

	running sync.WaitGroup // counts the running calls of the timer's function

	mu      sync.Mutex
	timer   *time.Timer
	delay   time.Duration // the wait before the next request
	rv      string        // the version that the store is current to
	heard   time.Time     // when the watch last sent something, or was opened
	found   *input        // why the watch was broken off, or nil
	result  probeResult
	stopped bool
}

// probeResult is what the probes beside one watch have found.
type probeResult uint8

const (
	notProbed       probeResult = iota
	probeUnanswered             // no probe was answered
	probeAnswered               // the last answer was 429, or the version that the store is current to
	probeFoundNewer             // the last answer was a different version
)

// startProbe starts to probe beside a watch that was just opened. seen is Config.Server's count of
// restores before the state from which the watch continues.
func startProbe(r *Reflector, ctx context.Context, broke context.CancelCauseFunc, rv string, a openWatch, seen uint64) *probe {
	p := &probe{r: r, ctx: ctx, broke: broke, delay: a.probe, rv: rv, heard: time.Now().Add(-a.unheard)}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.delay, p.ask)
	p.mu.Unlock()
	r.sink.WhenOutdated(func() { p.outdated(0) })
	r.cfg.Server.join(p, seen)
	return p
}

// outdated breaks the watch off because another reflector has found that the server went back.
// spread bounds the random delay of the list that follows.
func (p *probe) outdated(spread time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.found == nil {
		p.breakOff(input{typ: inOutdated, spread: spread})
	}
}

// breakOff ends the watch because of in. The caller holds the lock.
func (p *probe) breakOff(in input) {
	p.found = &in
	p.broke(errProbed)
}

// hear records that the watch has sent something, and is current to rv. It delays the next probe
// only if current is true: other events and bookmarks do not show that the store has the newest
// state.
func (p *probe) hear(rv string, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard, p.delay = time.Now(), bookmarkPeriod
	if rv != "" {
		p.rv = rv
	}
	if !p.stopped && current {
		p.timer.Reset(p.delay)
	}
}

// setResourceVersion records that the store is current to rv, because of what the watch has sent.
// It does nothing for a nil probe.
func (p *probe) setResourceVersion(rv string) {
	if p != nil && rv != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rv = rv
	}
}

// stop ends the probe and blocks until a request under way has ended. The caller must end the
// watch's context before. found is the input for which the watch was broken off, or nil. result is
// what the probes have found.
func (p *probe) stop() (found *input, result probeResult) {
	p.r.sink.WhenOutdated(nil)
	p.r.cfg.Server.leave(p)
	p.mu.Lock()
	p.stopped = true
	p.timer.Stop()
	found, result = p.found, p.result
	p.mu.Unlock()
	p.running.Wait()
	return found, result
}

// ask makes one request and evaluates the answer.
func (p *probe) ask() {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return
	}
	p.running.Add(1)
	defer p.running.Done()
	p.result = max(p.result, probeUnanswered)
	began, rv := time.Now(), p.rv
	p.mu.Unlock()

	newest, err := p.r.newestVersion(p.ctx, "")

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if err == nil || sentinelOf(err) == ErrTooManyRequests {
		current := err == nil && newest == p.rv
		if p.result = probeAnswered; current {
			p.r.current(began)
		} else if err == nil {
			p.result = probeFoundNewer
		}
		p.r.answered(current)
	}
	if in, broken := p.judge(began, rv, newest, err); broken {
		p.breakOff(in)
		return
	}
	p.timer.Reset(p.delay)
}

// judge reports whether the watch must be broken off, and with which input. If not, judge sets
// delay to the wait before the next probe. The caller holds the lock.
func (p *probe) judge(began time.Time, rv, newest string, err error) (in input, broken bool) {
	silent := began.Sub(p.heard) >= bookmarkPeriod
	switch {
	case err != nil && time.Since(p.heard) >= bookmarkPeriod && sentinelOf(err) != ErrTooManyRequests:
		return input{typ: inProbed, err: classify(Asking, err), retryAfter: retryAfterOf(err)}, true
	case err != nil:
		p.delay = min(2*p.delay, bookmarkPeriod)
		if rest := bookmarkPeriod - time.Since(p.heard); rest > 0 {
			p.delay = min(p.delay, rest)
		}
		p.delay = max(p.delay, putOff(retryAfterOf(err), p.r.cfg.Backoff.Random()))
		return input{}, false
	case resourceversion.Older(newest, rv), otherScheme(newest, rv), silent && newest != rv:
		return input{typ: inProbed, rv: newest}, true
	}
	p.delay = bookmarkPeriod
	return input{}, false
}
