package feed

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// waitFor blocks until the feed has reached rv, and reports whether it has. It starts the short
// WATCH if the feed is older. It gives up when a short WATCH that was opened after the call ends
// without having proven rv: an API server that has just started answers with an error or an old
// bookmark, and most often the next WATCH gets the same.
func (p *prover) waitFor(ctx context.Context, rv uint64) bool {
	if p.sink.version() >= rv {
		return true
	}
	if p.isSilent() {
		ctx, cancel := context.WithTimeout(ctx, silentWait)
		defer cancel()
		return p.sink.Wait(ctx, rv) == nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.wantVersion(rv), cancel)()
	defer p.leave()
	return p.sink.Wait(ctx, rv) == nil || p.sink.version() >= rv
}

// isSilent reports whether short WATCHes have sent no bookmarks, less than silentRest ago.
func (p *prover) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent >= maxProofWatches && time.Since(p.silentAt) < silentRest
}

// noteSilence counts a short WATCH that was silent: it has sent no bookmark in its time while
// nothing changed. Any other short WATCH ends the row.
func (p *prover) noteSilence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !silent {
		p.silent = 0
		return
	}
	p.silent, p.silentAt = p.silent+1, time.Now()
}

// wantVersion starts short WATCHes, unless they are under way. They continue until one proves rv,
// or no reader waits. wantVersion returns a context that ends when the next of them has ended, or
// when there will be none. The caller calls leave when it stops waiting.
func (p *prover) wantVersion(rv uint64) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	p.wanted = max(p.wanted, rv)
	if p.untried == nil {
		p.untried, p.endUntried = context.WithCancel(context.Background())
	}
	untried := p.untried
	switch {
	case p.watching:
	case p.closed:
		p.endUntried()
		p.untried = nil
	default:
		p.watching = true
		p.running.Go(p.watchLoop)
	}
	return untried
}

// leave ends a wait. The last reader to leave ends the short WATCHes: a client may ask for a
// resourceVersion that the upstream never reaches.
func (p *prover) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.wanted = 0
	}
}

// watchLoop opens short WATCHes until the wanted version is reached, or cannot be proven.
func (p *prover) watchLoop() {
	for tries := 0; ; {
		before := p.sink.version()
		ended := p.beginWatch(before, tries)
		if ended == nil {
			return
		}
		began := time.Now()
		p.watchOnce(before)
		ended()
		if p.sink.version() > before {
			tries = 0
			continue
		}
		tries++
		select {
		case <-time.After(queryInterval - time.Since(began)):
		case <-p.ctx.Done():
		}
	}
}

// beginWatch returns what to call when the next short WATCH has ended. If none is to be opened, it
// returns nil, and wakes the readers that wait for one.
func (p *prover) beginWatch(reached uint64, tries int) (ended func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended = func() {}
	if p.untried != nil {
		ended, p.untried = p.endUntried, nil
	}
	if p.wanted <= reached || tries == maxProofWatches || p.ctx.Err() != nil {
		p.watching, p.wanted = false, 0
		ended()
		return nil
	}
	return ended
}

// watchOnce opens a short WATCH from the feed's version, and has the sink record what its bookmark
// proves.
func (p *prover) watchOnce(from uint64) {
	if !p.isWatching() {
		return
	}
	p.stats.ProofWatches.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	w, err := p.source().Watch(ctx, source.WatchOptions{ResourceVersion: resourceversion.Format(from), AllowBookmarks: true, Timeout: p.timeout})
	if err != nil {
		p.failures.Add(1)
		return
	}
	defer w.Close()
	opened := time.Now()
	bookmark, last, err := readToBookmark(w, from)
	if err != nil {
		if time.Since(opened) > p.timeout/2 {
			p.noteSilence(p.sink.version() <= from)
		}
		p.failures.Add(1)
		return
	}
	p.noteSilence(false)
	if p.sink.Wait(ctx, last) == nil && p.isWatching() {
		p.sink.prove(bookmark)
	}
}

// errCoalesces is why an upstream that is a cache itself proves nothing for now.
var errCoalesces = errors.New("the upstream coalesces changes")

// readToBookmark returns the resourceVersions of a watch's first bookmark and of the last change
// before it (from, if there is none).
func readToBookmark(w source.Watch, from uint64) (bookmark, last uint64, err error) {
	last = from
	for {
		e, err := w.Next()
		if err != nil {
			return 0, 0, err
		}
		if e.Type == wire.Error {
			return 0, 0, wire.DecodeStatus(w.Encoding(), e.Raw)
		}
		var m wire.Meta
		if err := wire.ReadMeta(w.Encoding(), e.Raw, &m); err != nil {
			return 0, 0, err
		}
		rv := resourceversion.Number(m.ResourceVersion)
		switch {
		case rv == 0:
			return 0, 0, io.ErrUnexpectedEOF
		case m.Coalesced() != "":
			return 0, 0, errCoalesces
		case e.Type == wire.Bookmark:
			return rv, last, nil
		}
		last = max(last, rv)
	}
}
