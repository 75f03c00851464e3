package feed

import (
	"context"
	"errors"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// waitFor blocks until the feed has reached rv, and reports whether it has. If the feed is older
// and isSilent returns false, waitFor makes the prover open a short WATCH. If the feed is older and
// isSilent returns true, waitFor opens no WATCH and waits only silentWait. If the WATCH ends and
// the feed has still not reached rv, waitFor returns false and does not try a second WATCH. The
// usual cause is an API server that has just started and answers with an error or an old bookmark.
// It would usually answer a second WATCH in the same way.
func (p *prover) waitFor(ctx context.Context, rv uint64) bool {
	if p.sink.version() >= rv {
		return true
	}
	if p.isSilent() {
		ctx, cancel := context.WithTimeout(ctx, silentWait)
		defer cancel()
		return p.sink.Wait(ctx, rv) == nil
	}
	t := p.watches.join()
	defer p.watches.leave(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.over, cancel)()
	return p.sink.Wait(ctx, rv) == nil || p.sink.version() >= rv
}

// isSilent reports whether the last maxSilent short WATCHes were silent, see noteSilence. It
// returns false if the last of them ended silentRest ago or earlier.
func (p *prover) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent >= maxSilent && time.Since(p.silentAt) < silentRest
}

// noteSilence records whether a short WATCH was silent. A WATCH is silent if it ended without a
// bookmark after more than half of its timeout, and if no change arrived in that time. A WATCH that
// was not silent resets the count of silent WATCHes.
func (p *prover) noteSilence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !silent {
		p.silent = 0
		return
	}
	p.silent, p.silentAt = p.silent+1, time.Now()
}

// watchOnce opens a short WATCH from the feed's version. If the feed has received every change
// before the WATCH's bookmark, the sink records that the feed is current up to the bookmark.
func (p *prover) watchOnce(*turn) {
	from := p.sink.version()
	if !p.isWatching() {
		return
	}
	p.stats.ProofWatches.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	seconds := int64((p.timeout + time.Second - 1) / time.Second)
	w, err := p.source().Watch(ctx, metav1.ListOptions{ResourceVersion: resourceversion.Format(from), AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
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

// errCoalesces is returned when the upstream is itself a cache and coalesces changes. A bookmark
// then proves nothing.
var errCoalesces = errors.New("the upstream coalesces changes")

// readToBookmark returns the resourceVersions of a watch's first bookmark and of the last change
// before it. If there is no such change, last is equal to from, the resourceVersion at which the
// watch was opened.
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
