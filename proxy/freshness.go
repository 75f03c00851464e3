package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// freshnessProver proves that a session is as new as the upstream was at the time of a read. Then
// the proxy can answer consistent reads, those without resourceVersion. A LIST with limit=1 is
// consistent and returns the upstream's newest resourceVersion, which the session must reach. While
// changes keep coming it does so at once. Otherwise a short WATCH upstream shows that nothing has
// changed: it ends with a bookmark, and whatever is not in that stream before the bookmark has not
// happened.
//
// All readers that wait when the LIST is sent share its result, and there is one short WATCH at a
// time. One goroutine lists and one watches while somebody waits. Both end with the session.
type freshnessProver struct {
	ctx     context.Context // of the session
	sources []source.Source // asked in turn, the next one after each failure
	sink    *storeSink
	status  func() reflector.Status
	pace    *rate.Limiter // of the queries
	// timeout is how long a read waits for a proof before it is forwarded. A query and a short WATCH
	// last no longer.
	timeout time.Duration

	queries, watches *atomic.Uint64 // LISTs and WATCHes sent

	failures atomic.Uint64 // of sources
	// provenAt is when the newest query was sent whose version was reached, in Unix nanoseconds. 0:
	// never.
	provenAt atomic.Int64

	running sync.WaitGroup

	mu       sync.Mutex
	next     *versionQuery // not sent yet; nil: nobody waits for one
	querying bool
	wanted   uint64 // the newest resourceVersion that somebody waits for; 0: none
	waiting  int    // readers in waitFor
	watching bool
	// untried is closed when the short WATCH that is opened next has ended. nil: nobody waits for it.
	untried chan struct{}
	closed  bool
	// silent counts the short WATCHes in a row that lasted as long as they may and brought no
	// bookmark. silentAt is when the last of them ended.
	silent   int
	silentAt time.Time
}

// versionQuery is a query for the upstream's newest resourceVersion. The fields below done are set
// when it is closed.
type versionQuery struct {
	done   chan struct{}
	sent   time.Time
	before uint64 // the session's version at that time
	rv     uint64
	err    error
}

const (
	// queryInterval is the mean time between the queries of a session, and queryBurst how many may
	// be sent at once: who reads a moment after another needs a query of its own, and the short
	// WATCH that is open proves both.
	queryInterval = time.Second
	queryBurst    = 2
	// minProofObjects is the number of objects below which a read is forwarded: it costs the
	// upstream no more than the query.
	minProofObjects = 100
	// maxProofWatches is how many short WATCHes in a row may prove nothing.
	maxProofWatches = 3
	// kube-apiserver has no watch cache of Events by default, and their WATCHes have bookmarks only
	// when etcd tells of its progress. After maxProofWatches that were silent none is opened for
	// silentRest. Meanwhile a change of the resource may still prove it, within silentWait.
	silentRest = time.Minute
	silentWait = 200 * time.Millisecond
)

var errNotWatching = errors.New("the upstream is not being watched")

func newFreshnessProver(ctx context.Context, sources []source.Source, sk *storeSink, status func() reflector.Status, timeout time.Duration) *freshnessProver {
	return &freshnessProver{
		ctx: ctx, sources: sources, sink: sk, status: status, timeout: timeout,
		pace:    rate.NewLimiter(rate.Every(queryInterval), queryBurst),
		queries: new(atomic.Uint64), watches: new(atomic.Uint64),
	}
}

// newProofSource returns the first source for proofs. Its LISTs share one HTTP/2 connection with
// its WATCHes, so that both come to the same API server where several stand behind one address. The
// LIST has that server ask etcd for its progress; without that, its watch cache may be behind the
// LIST of another by 5 s when nothing changes, and one that has just been created sends no bookmark
// at all.
func newProofSource(upstream *rest.Config, r source.Resource, o source.Options) (*source.REST, error) {
	upstream = rest.CopyConfig(upstream)
	if os.Getenv("DISABLE_HTTP2") == "" { // which client-go's transports obey, whatever is named here
		upstream.NextProtos = []string{"h2", "http/1.1"}
	}
	return source.New(upstream, r, o)
}

// close waits for the goroutines, once the session's context has ended. Later calls prove nothing.
func (p *freshnessProver) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// proveCurrent blocks until the session is as new as the upstream was after the call, and reports
// whether it is. It gives up after the timeout, when ctx ends, if the session does not watch the
// upstream, or if the upstream has gone back.
func (p *freshnessProver) proveCurrent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
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

// waitForVersion blocks until the session has reached rv, for the timeout at most.
func (p *freshnessProver) waitForVersion(ctx context.Context, rv uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.waitFor(ctx, rv)
}

// newestVersion returns the next query for the upstream's newest resourceVersion, shared by all who
// wait for it. It returns nil if ctx or the session ends first.
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

// queryLoop sends queries while somebody waits.
func (p *freshnessProver) queryLoop() {
	for {
		p.mu.Lock()
		if p.next == nil {
			p.querying = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		_ = p.pace.Wait(p.ctx) // if the session has ended, so does the query
		p.mu.Lock()
		q := p.next
		p.next = nil
		q.sent = time.Now()
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
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	rv, err := p.source().NewestVersion(ctx, "")
	if err != nil {
		p.failures.Add(1)
	}
	return resourceversion.Number(rv), err
}

// source returns the source to ask. An API server that fails, of several behind one address, may
// answer pings for hours, so that the connection to it stays: another source has others.
func (p *freshnessProver) source() source.Source {
	return p.sources[p.failures.Load()%uint64(len(p.sources))]
}

// isWatching reports whether the session watches the upstream. A session that has lost its watch
// cannot be proven current by another stream.
func (p *freshnessProver) isWatching() bool {
	st := p.status()
	return st.Phase == reflector.Watching && st.Err == nil
}

// waitFor blocks until the session has reached rv. It starts the short WATCH if that is not the
// case yet. It gives up when a short WATCH that was opened after the call ends without having
// proven rv: that of an API server which has just started brings an error or an old bookmark, and
// the next one most often does too.
func (p *freshnessProver) waitFor(ctx context.Context, rv uint64) bool {
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
	ended := p.wantVersion(rv)
	defer p.leave()
	go func() {
		defer cancel()
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}()
	return p.sink.Wait(ctx, rv) == nil || p.sink.version() >= rv
}

// isSilent reports whether short WATCHes bring no bookmarks, and none has been tried for a while.
func (p *freshnessProver) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent >= maxProofWatches && time.Since(p.silentAt) < silentRest
}

// noteSilence counts a short WATCH that has brought no bookmark in its time while nothing changed,
// or another one.
func (p *freshnessProver) noteSilence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !silent {
		p.silent = 0
		return
	}
	p.silent, p.silentAt = p.silent+1, time.Now()
}

// wantVersion starts short WATCHes, unless they are under way. They go on until one proves rv, or
// nobody waits any more. wantVersion returns a channel that is closed when the next of them has
// ended, or when there will be none. The caller calls leave when it waits no longer.
func (p *freshnessProver) wantVersion(rv uint64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting++
	p.wanted = max(p.wanted, rv)
	if p.untried == nil {
		p.untried = make(chan struct{})
	}
	untried := p.untried
	switch {
	case p.watching:
	case p.closed:
		close(untried)
		p.untried = nil
	default:
		p.watching = true
		p.running.Go(p.watchLoop)
	}
	return untried
}

// leave ends a wait. The last to leave ends the short WATCHes: a client may ask for a
// resourceVersion that never comes.
func (p *freshnessProver) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.wanted = 0
	}
}

// watchLoop opens short WATCHes until the wanted version is reached, or cannot be proven.
func (p *freshnessProver) watchLoop() {
	for tries := 0; ; {
		before := p.sink.version()
		ended := p.beginWatch(before, tries)
		if ended == nil {
			return
		}
		began := time.Now()
		p.watchOnce(before)
		close(ended)
		if p.sink.version() > before {
			tries = 0
			continue
		}
		tries++
		pause(p.ctx, queryInterval-time.Since(began))
	}
}

// beginWatch returns the channel to close when the next short WATCH has ended. If none is to be
// opened, it returns nil, and tells those who wait for one.
func (p *freshnessProver) beginWatch(reached uint64, tries int) chan<- struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := p.untried
	p.untried = nil
	if ended == nil {
		ended = make(chan struct{})
	}
	if p.wanted <= reached || tries == maxProofWatches || p.ctx.Err() != nil {
		p.watching, p.wanted = false, 0
		close(ended)
		return nil
	}
	return ended
}

// watchOnce opens a short WATCH from the session's version, and tells the sink what its bookmark
// proves.
func (p *freshnessProver) watchOnce(from uint64) {
	if !p.isWatching() {
		return
	}
	p.watches.Add(1)
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

// errCoalesces is why an upstream that is a cache itself proves nothing just now.
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
