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

// prover proves that what a session holds is as new as the upstream was when somebody asked, so that reads without resourceVersion, which
// must be consistent, can be answered from here. A LIST of one object, which is a consistent one, tells the newest resourceVersion of the
// upstream: the copy must come to it. Where changes keep coming it is there at once. Where none come it need only be shown that there were none: the
// upstream ends a short WATCH by a bookmark, and what is not on that one stream before the bookmark has not happened.
//
// Everybody who waits when the LIST is sent shares its answer, and there is one such WATCH at a time. One goroutine asks, and one watches,
// while somebody waits; both end with the session.
type prover struct {
	ctx    context.Context // of the session
	source source.Source
	feed   *feed
	status func() reflector.Status
	pace   time.Duration // the least time between two questions

	asked, watched *atomic.Uint64 // questions and WATCHes upstream

	at atomic.Int64 // when the last question was sent whose answer the copy has come to, in Unix nanoseconds; 0: never

	running sync.WaitGroup

	mu       sync.Mutex
	next     *inquiry // that has not been sent; nil: nobody waits for one
	asking   bool
	last     time.Time // when the last question was sent
	wanted   uint64    // the newest resourceVersion that somebody waits for
	watching bool
	ended    bool
}

// inquiry is a question for the newest resourceVersion of the upstream. What follows done is set when that is closed.
type inquiry struct {
	done   chan struct{}
	sent   time.Time
	before uint64 // what the copy was current to then
	rv     uint64
	err    error
}

const (
	// proofPatience is how long a read waits for a proof before it goes upstream. kube-apiserver waits for so long itself.
	proofPatience = 3 * time.Second
	// questionPace is how often the upstream is asked for its newest resourceVersion.
	questionPace = time.Second
	// worthProof is how many objects there must be for a read to wait for a proof: fewer cost the upstream no more than the question.
	worthProof = 100
	// shortWatch is how long a WATCH for the sake of its bookmark lasts, which comes two seconds before its end.
	shortWatch = 3 * time.Second
	// proofTries is how many such WATCHes in a row may fail to prove what somebody waits for.
	proofTries = 3
)

var errNotWatching = errors.New("the upstream is not being watched")

func newProver(ctx context.Context, src source.Source, f *feed, status func() reflector.Status) *prover {
	return &prover{ctx: ctx, source: src, feed: f, status: status, pace: questionPace, asked: new(atomic.Uint64), watched: new(atomic.Uint64)}
}

// end waits for the goroutines of a session whose context has ended. Nothing is proven any more.
func (p *prover) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.running.Wait()
}

// current waits until what is held is as new as the upstream was after the call, and reports whether it is. It gives up after
// proofPatience, or with ctx, and where the upstream is not being watched, or tells of a past.
func (p *prover) current(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, proofPatience)
	defer cancel()
	q := p.newest(ctx)
	if q == nil || q.err != nil || q.rv == 0 || q.rv < q.before || !p.comes(ctx, q.rv) {
		return false
	}
	sent := q.sent.UnixNano()
	for at := p.at.Load(); at < sent && !p.at.CompareAndSwap(at, sent); at = p.at.Load() {
	}
	return true
}

// reaches waits until the copy has come to a resourceVersion, no longer than proofPatience.
func (p *prover) reaches(ctx context.Context, rv uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, proofPatience)
	defer cancel()
	return p.comes(ctx, rv)
}

// newest asks for the newest resourceVersion of the upstream, together with all who do so until the question is sent. nil: there is no answer
// yet when ctx ends, or will never be.
func (p *prover) newest(ctx context.Context) *inquiry {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return nil
	}
	q := p.next
	if q == nil {
		q = &inquiry{done: make(chan struct{})}
		p.next = q
	}
	if !p.asking {
		p.asking = true
		p.running.Go(p.ask)
	}
	p.mu.Unlock()
	select {
	case <-q.done:
		return q
	case <-ctx.Done():
		return nil
	}
}

// ask asks while there are questions.
func (p *prover) ask() {
	for {
		p.mu.Lock()
		rest := p.pace - time.Since(p.last)
		p.mu.Unlock()
		pause(p.ctx, rest)
		p.mu.Lock()
		q := p.next
		if p.next = nil; q == nil {
			p.asking = false
			p.mu.Unlock()
			return
		}
		p.last = time.Now()
		q.sent = p.last
		p.mu.Unlock()
		q.before = p.feed.version()
		q.rv, q.err = p.askOnce()
		close(q.done)
	}
}

func (p *prover) askOnce() (uint64, error) {
	if !p.isWatching() {
		return 0, errNotWatching
	}
	p.asked.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, proofPatience)
	defer cancel()
	rv, err := p.source.NewestVersion(ctx, "")
	return parseVersion(rv), err
}

// isWatching reports whether the upstream tells the session what changes: a copy that has lost touch is not proven by what somebody else hears.
func (p *prover) isWatching() bool {
	st := p.status()
	return st.Phase == reflector.Watching && st.Err == nil
}

// comes waits until the copy has come to rv, and has the upstream show that nothing has happened if nothing does.
func (p *prover) comes(ctx context.Context, rv uint64) bool {
	if p.feed.version() >= rv {
		return true
	}
	p.mu.Lock()
	p.wanted = max(p.wanted, rv)
	if !p.watching && !p.ended {
		p.watching = true
		p.running.Go(p.watch)
	}
	p.mu.Unlock()
	return p.feed.Wait(ctx, rv) == nil
}

// watch watches for the sake of bookmarks until what is wanted is there, or cannot be proven.
func (p *prover) watch() {
	for tries := 0; ; {
		p.mu.Lock()
		before := p.feed.version()
		if p.wanted <= before || tries == proofTries || p.ctx.Err() != nil {
			p.watching, p.wanted = false, 0
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		began := time.Now()
		if p.watchOnce(before); p.feed.version() == before {
			tries++
			pause(p.ctx, p.pace-time.Since(began))
		}
	}
}

// watchOnce opens a short WATCH from where the copy is, and tells the feed what its bookmark proves.
func (p *prover) watchOnce(from uint64) {
	if !p.isWatching() {
		return
	}
	p.watched.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, shortWatch)
	defer cancel()
	w, err := p.source.Watch(ctx, source.WatchOptions{ResourceVersion: formatVersion(from), AllowBookmarks: true, Timeout: shortWatch})
	if err != nil {
		return
	}
	defer w.Close()
	bookmark, last, err := readToBookmark(w, from)
	if err == nil && p.feed.Wait(ctx, last) == nil && p.isWatching() {
		p.feed.prove(bookmark)
	}
}

// readToBookmark returns the resourceVersion of a watch's first bookmark, and that of the last change before it; from, where there is none.
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
