package proxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// freshnessProver proves that what a session holds is as new as the upstream was when somebody
// asked, so that reads without resourceVersion, which must be consistent, can be answered from
// here. A LIST of one object, which is a consistent one, tells the newest resourceVersion of the
// upstream: the copy must come to it. Where changes keep coming it is there at once. Where none
// come it need only be shown that there were none: the upstream ends a short WATCH by a bookmark,
// and what is not on that one stream before the bookmark has not happened.
//
// Everybody who waits when the LIST is sent shares its answer, and there is one such WATCH at a
// time. One goroutine asks, and one watches, while somebody waits; both end with the session.
type freshnessProver struct {
	ctx      context.Context // of the session
	source   source.Source
	sink     *storeSink
	status   func() reflector.Status
	interval time.Duration // the least time between two questions

	queries, watches *atomic.Uint64 // questions and WATCHes upstream

	provenAt atomic.Int64 // when the last question was sent whose answer the copy has come to, in Unix nanoseconds; 0: never

	running sync.WaitGroup

	mu       sync.Mutex
	next     *versionQuery // that has not been sent; nil: nobody waits for one
	querying bool
	last     time.Time // when the last question was sent
	wanted   uint64    // the newest resourceVersion that somebody waits for
	watching bool
	closed   bool
}

// versionQuery is a question for the newest resourceVersion of the upstream. What follows done is
// set when that is closed.
type versionQuery struct {
	done   chan struct{}
	sent   time.Time
	before uint64 // what the copy was current to then
	rv     uint64
	err    error
}

const (
	// proofTimeout is how long a read waits for a proof before it goes upstream. kube-apiserver
	// waits for so long itself.
	proofTimeout = 3 * time.Second
	// queryInterval is how often the upstream is asked for its newest resourceVersion.
	queryInterval = time.Second
	// minProofObjects is how many objects there must be for a read to wait for a proof: fewer cost
	// the upstream no more than the question.
	minProofObjects = 100
	// proofWatchDuration is how long a WATCH for the sake of its bookmark lasts, which comes two
	// seconds before its end.
	proofWatchDuration = 3 * time.Second
	// maxProofWatches is how many such WATCHes in a row may fail to prove what somebody waits for.
	maxProofWatches = 3
)

var errNotWatching = errors.New("the upstream is not being watched")

func newFreshnessProver(ctx context.Context, src source.Source, sk *storeSink, status func() reflector.Status) *freshnessProver {
	return &freshnessProver{ctx: ctx, source: src, sink: sk, status: status, interval: queryInterval, queries: new(atomic.Uint64), watches: new(atomic.Uint64)}
}

// close waits for the goroutines of a session whose context has ended. Nothing is proven any more.
func (p *freshnessProver) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// proveCurrent waits until what is held is as new as the upstream was after the call, and reports
// whether it is. It gives up after proofTimeout, or with ctx, and where the upstream is not being
// watched, or tells of a past.
func (p *freshnessProver) proveCurrent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	q := p.newestVersion(ctx)
	if q == nil || q.err != nil || q.rv == 0 || q.rv < q.before || !p.waitFor(ctx, q.rv) {
		return false
	}
	sent := q.sent.UnixNano()
	for at := p.provenAt.Load(); at < sent && !p.provenAt.CompareAndSwap(at, sent); at = p.provenAt.Load() {
	}
	return true
}

// waitForVersion waits until the copy has come to a resourceVersion, no longer than proofTimeout.
func (p *freshnessProver) waitForVersion(ctx context.Context, rv uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	return p.waitFor(ctx, rv)
}

// newestVersion asks for the newest resourceVersion of the upstream, together with all who do so
// until the question is sent. nil: there is no answer yet when ctx ends, or will never be.
func (p *freshnessProver) newestVersion(ctx context.Context) *versionQuery {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	q := p.next
	if q == nil {
		q = &versionQuery{done: make(chan struct{})}
		p.next = q
	}
	if !p.querying {
		p.querying = true
		p.running.Go(p.queryLoop)
	}
	p.mu.Unlock()
	select {
	case <-q.done:
		return q
	case <-ctx.Done():
		return nil
	}
}

// queryLoop asks while there are questions.
func (p *freshnessProver) queryLoop() {
	for {
		p.mu.Lock()
		rest := p.interval - time.Since(p.last)
		p.mu.Unlock()
		pause(p.ctx, rest)
		p.mu.Lock()
		q := p.next
		if p.next = nil; q == nil {
			p.querying = false
			p.mu.Unlock()
			return
		}
		p.last = time.Now()
		q.sent = p.last
		p.mu.Unlock()
		q.before = p.sink.version()
		q.rv, q.err = p.queryOnce()
		close(q.done)
	}
}

func (p *freshnessProver) queryOnce() (uint64, error) {
	if !p.isWatching() {
		return 0, errNotWatching
	}
	p.queries.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, proofTimeout)
	defer cancel()
	rv, err := p.source.NewestVersion(ctx, "")
	return parseVersion(rv), err
}

// isWatching reports whether the upstream tells the session what changes: a copy that has lost
// touch is not proven by what somebody else hears.
func (p *freshnessProver) isWatching() bool {
	st := p.status()
	return st.Phase == reflector.Watching && st.Err == nil
}

// waitFor waits until the copy has come to rv, and has the upstream show that nothing has happened
// if nothing does.
func (p *freshnessProver) waitFor(ctx context.Context, rv uint64) bool {
	if p.sink.version() >= rv {
		return true
	}
	p.mu.Lock()
	p.wanted = max(p.wanted, rv)
	if !p.watching && !p.closed {
		p.watching = true
		p.running.Go(p.watchLoop)
	}
	p.mu.Unlock()
	return p.sink.Wait(ctx, rv) == nil
}

// watchLoop watches for the sake of bookmarks until what is wanted is there, or cannot be proven.
func (p *freshnessProver) watchLoop() {
	for tries := 0; ; {
		p.mu.Lock()
		before := p.sink.version()
		if p.wanted <= before || tries == maxProofWatches || p.ctx.Err() != nil {
			p.watching, p.wanted = false, 0
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		began := time.Now()
		if p.watchOnce(before); p.sink.version() == before {
			tries++
			pause(p.ctx, p.interval-time.Since(began))
		}
	}
}

// watchOnce opens a short WATCH from where the copy is, and tells the feed what its bookmark
// proves.
func (p *freshnessProver) watchOnce(from uint64) {
	if !p.isWatching() {
		return
	}
	p.watches.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, proofWatchDuration)
	defer cancel()
	w, err := p.source.Watch(ctx, source.WatchOptions{ResourceVersion: formatVersion(from), AllowBookmarks: true, Timeout: proofWatchDuration})
	if err != nil {
		return
	}
	defer w.Close()
	bookmark, last, err := readToBookmark(w, from)
	if err == nil && p.sink.Wait(ctx, last) == nil && p.isWatching() {
		p.sink.prove(bookmark)
	}
}

// readToBookmark returns the resourceVersion of a watch's first bookmark, and that of the last
// change before it; from, where there is none.
func readToBookmark(w *source.Watch, from uint64) (bookmark, last uint64, err error) {
	last = from
	for {
		e, err := w.Next()
		if err != nil {
			return 0, 0, err
		}
		if e.Type == wire.Error {
			return 0, 0, wire.DecodeStatus(w.Encoding(), e.Object)
		}
		var m wire.Meta
		if err := wire.ReadMeta(w.Encoding(), e.Object, &m); err != nil {
			return 0, 0, err
		}
		rv := parseVersion(m.ResourceVersion)
		switch {
		case rv == 0:
			return 0, 0, io.ErrUnexpectedEOF
		case e.Type == wire.Bookmark:
			return rv, last, nil
		}
		last = max(last, rv)
	}
}
