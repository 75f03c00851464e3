package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// errProbed is the cause with which a probe breaks its watch off.
var errProbed = errors.New("a probe broke the watch off")

// probe asks a server for its newest resourceVersion while a watch is open and silent. An open
// watch alone does not tell a server that has nothing to say from one that is gone, hangs, or is
// behind what it answered before. The probe also breaks the watch off when another reflector of the
// store, or of the server, finds that the server went back. Beside a watch whose bookmarks repeat
// the store's version it asks as well, but leaves the watch alone where the server is ahead:
// changes may be on their way, or none of its resource.
//
// It has one timer, whose function makes at most one request at a time. stop ends both.
type probe struct {
	r     *Reflector
	ctx   context.Context         // of the watch
	broke context.CancelCauseFunc // ends the watch

	running sync.WaitGroup // the timer's function

	mu      sync.Mutex
	timer   *time.Timer
	delay   time.Duration // before the next question
	rv      string        // the store is current to here
	heard   time.Time     // when the watch brought something last, or was opened
	found   *input        // what the watch was broken off for
	result  probeResult
	stopped bool
}

// probeResult is what the probes beside a watch have found.
type probeResult uint8

const (
	notProbed       probeResult = iota
	probeUnanswered             // none was answered
	probeAnswered               // the last answer was 429, or the version that the store is current to
	probeFoundNewer             // the last answer was another version
)

// startProbe begins to probe beside a watch that was just opened. seen is the number of
// Config.Server's restores before the state that the watch goes on from.
func startProbe(r *Reflector, ctx context.Context, broke context.CancelCauseFunc, rv string, a openWatch, seen uint64) *probe {
	p := &probe{r: r, ctx: ctx, broke: broke, delay: a.probe, rv: rv, heard: time.Now().Add(-a.unheard)}
	p.mu.Lock()
	p.timer = time.AfterFunc(p.delay, p.ask)
	p.mu.Unlock()
	r.sink.WhenOutdated(func() { p.outdated(0) })
	r.cfg.Server.join(p, seen)
	return p
}

// outdated breaks the watch off because another reflector has found that the server went back. The
// lists of all reflectors that learn of it now are spread over spread.
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

// hear notes that the watch has brought something, and is current to rv. What shows that no newer
// state is held puts no question off.
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

// setResourceVersion notes that the store is current to rv, by what the watch has brought. A nil
// probe notes nothing.
func (p *probe) setResourceVersion(rv string) {
	if p != nil && rv != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rv = rv
	}
}

// stop ends the probe and blocks until a request under way has ended. The watch's context must have
// ended before. It returns what the watch was broken off for, or nil, and what the probes have
// found.
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

// ask makes one request and judges the answer.
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

// judge reports whether the watch is to be broken off, and for what. If it is not, judge sets delay
// to the wait before the next question. The caller holds the lock.
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
