package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// errProbed is the cause with which a probe ends the context of its watch.
var errProbed = errors.New("a probe ended the watch")

// probe requests a server's newest resourceVersion while a watch is open and silent. A silent watch
// has several possible reasons: there are no changes, or the server is gone, hangs, or is at an
// older version than it reported before. The response to the probe distinguishes these reasons. The
// probe also ends the watch if another reflector of the store, or of the server, finds that the
// server went back in time.
//
// A bookmark that only repeats the store's version does not delay the next request of the probe.
// But it shows that the server can send on this watch. So after such a bookmark, the probe does not
// end the watch if the server has a newer version. The changes up to that version may be in
// transit, or may concern other resources.
//
// A probe has one timer, whose function sends at most one request at a time. stop ends the timer
// and the request.
type probe struct {
	r     *Reflector
	ctx   context.Context         // the context of the watch
	broke context.CancelCauseFunc // cancels ctx, which ends the watch

	running sync.WaitGroup // counts the running calls of ask

	mu      sync.Mutex
	timer   *time.Timer
	delay   time.Duration // the wait before the next request
	rv      string        // the version that the store is current to
	heard   time.Time     // when the watch was opened or last sent something
	found   *input        // why the probe ended the watch, or nil
	result  probeResult
	stopped bool
}

// probeResult is what the probes of one watch have found.
type probeResult uint8

const (
	notProbed       probeResult = iota
	probeUnanswered             // no probe got a response
	// the last response was 429, or the version that the store is current to
	probeAnswered
	probeFoundNewer // the last response was a version other than the store's
)

// startProbe starts the probe of a watch that was just opened. seen is the number of restores that
// Config.Server had counted when the reflector requested the state before this watch.
func startProbe(r *Reflector, ctx context.Context, broke context.CancelCauseFunc, rv string, a openWatch, seen uint64) *probe {
	p := &probe{r: r, ctx: ctx, broke: broke, delay: a.probe, rv: rv, heard: time.Now().Add(-a.unheard)}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.delay, p.ask)
	p.mu.Unlock()
	r.sink.WhenOutdated(func() { p.outdated(0) })
	r.cfg.Server.join(p, seen)
	return p
}

// outdated ends the watch because another reflector has found that the server went back in time.
// spread is the maximum random delay of the list that follows.
func (p *probe) outdated(spread time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.found == nil {
		p.breakOff(input{typ: inOutdated, spread: spread})
	}
}

// breakOff ends the watch, and stores its argument as the reason. The caller must hold p.mu.
func (p *probe) breakOff(in input) {
	p.found = &in
	p.broke(errProbed)
}

// hear records that the watch has sent something, and that the store is current to rv. If current
// is true, the store has the server's newest state, so hear also delays the probe's next request.
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

// setResourceVersion records that the store is current to rv. It is a no-op for a nil probe.
func (p *probe) setResourceVersion(rv string) {
	if p != nil && rv != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rv = rv
	}
}

// stop ends the probe and blocks until its request has ended. The caller must end the watch's
// context first. found is the input with the reason why the probe ended the watch, or nil. result
// is what the probe has found.
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

// ask sends one request and evaluates the response.
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

	newest, err := p.r.newestVersion(p.ctx, askNewest{})

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

// judge decides from the response to a request whether to end the watch. began is the time at which
// the request was sent, and rv is the version that the store was current to at that time. If broken
// is true, the watch must end, and the returned input says why. Otherwise judge sets p.delay to the
// wait before the next request. The caller must hold p.mu.
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
