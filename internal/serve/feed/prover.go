package feed

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
)

// prover proves that a feed is as new as the upstream was at the time of a read. With such a proof,
// the owner can answer a consistent read, which has no resourceVersion. The prover sends a
// consistent LIST with limit=1, which returns the upstream's newest resourceVersion. The feed must
// then reach this resourceVersion. While the resource changes often, the feed reaches it
// immediately. Otherwise a short WATCH of the upstream shows that nothing has changed: it ends with
// a bookmark, and every change up to the bookmark is in the stream before it.
//
// All readers that wait when the LIST is sent share its result. At most one short WATCH is open at
// a time. One goroutine lists and one watches while a reader waits. close ends both.
type prover struct {
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
	sources []source.Source // used in turn: the next one after each failure
	sink    *sink
	status  func() reflector.Status
	pace    *rate.Limiter // limits the rate of the queries
	// timeout is how long a read waits for a proof. It also bounds a query and a short WATCH.
	timeout time.Duration
	stats   *Stats

	failures atomic.Uint64 // failed requests to sources
	// provenAt is when the prover sent the newest query whose version the feed has reached, in Unix
	// nanoseconds. 0: never.
	provenAt atomic.Int64

	running sync.WaitGroup

	mu       sync.Mutex
	next     *versionQuery // the query that is sent next; nil: no reader waits for one
	querying bool
	wanted   uint64 // the newest resourceVersion that a reader waits for; 0: none
	waiting  int    // readers in waitFor
	watching bool
	// untried is a context that endUntried ends when the next opened short WATCH has ended. nil: no
	// reader waits for that WATCH.
	untried    context.Context
	endUntried context.CancelFunc
	closed     bool
	// silent is the number of consecutive short WATCHes that lasted their full time and sent no
	// bookmark. silentAt is when the last of them ended.
	silent   int
	silentAt time.Time
}

// versionQuery is a query for the upstream's newest resourceVersion. Closing done publishes the
// fields below it.
type versionQuery struct {
	done   chan struct{}
	sent   time.Time
	before uint64 // the feed's version when the query was sent
	rv     uint64
	err    error
}

const (
	// queryInterval is the mean time between the queries of a feed. queryBurst is the number of
	// queries that may be sent without a pause, because a reader that starts shortly after another one
	// needs a separate query. The same short WATCH can prove both queries.
	queryInterval = time.Second
	queryBurst    = 2
	// maxProofWatches is the number of consecutive short WATCHes without a proof after which the
	// prover stops.
	maxProofWatches = 3
	// By default, kube-apiserver has no watch cache for Events, and sends bookmarks of their WATCHes
	// only when etcd reports its progress. After maxProofWatches silent WATCHes, the prover opens
	// none for silentRest. Meanwhile a change of the resource within silentWait may still serve as
	// proof.
	silentRest = time.Minute
	silentWait = 200 * time.Millisecond
	// defaultProofTimeout is Config.ProofTimeout's default.
	defaultProofTimeout = 3 * time.Second
)

var (
	errNotWatching = errors.New("the upstream is not being watched")
	errNotAsked    = errors.New("the upstream did not report its newest resourceVersion in time")
)

func newProver(sources []source.Source, sk *sink, status func() reflector.Status, timeout time.Duration) *prover {
	p := &prover{sources: sources, sink: sk, status: status, timeout: timeout, stats: sk.stats, pace: rate.NewLimiter(rate.Every(queryInterval), queryBurst)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// newProofSource returns the first source for proofs. Its LISTs and WATCHes share one HTTP/2
// connection, so that both reach the same API server if several servers share one address. The LIST
// makes that server request its progress from etcd. Otherwise its watch cache may be 5 s behind the
// LIST of another server while nothing changes, and a newly created watch cache sends no bookmark.
func newProofSource(upstream *rest.Config, r source.Resource, o source.Options) (*source.REST, error) {
	upstream = rest.CopyConfig(upstream)
	if os.Getenv("DISABLE_HTTP2") == "" { // client-go's transports obey it unless NextProtos is set
		upstream.NextProtos = []string{"h2", "http/1.1"}
	}
	return source.New(upstream, r, o)
}

// close ends the goroutines and waits for them. After close, no proof succeeds. close may be called
// several times.
func (p *prover) close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// proveCurrent implements Feed.ProveCurrent.
func (p *prover) proveCurrent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	q := p.query(ctx)
	if q == nil || q.err != nil || q.rv == 0 || q.rv < q.before || !p.waitFor(ctx, q.rv) {
		return false
	}
	sent := q.sent.UnixNano()
	for at := p.provenAt.Load(); at < sent && !p.provenAt.CompareAndSwap(at, sent); at = p.provenAt.Load() {
	}
	return true
}

// proveVersion implements Feed.ProveVersion.
func (p *prover) proveVersion(ctx context.Context, rv uint64) bool {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.waitFor(ctx, rv)
}

// newestVersion implements Feed.NewestVersion.
func (p *prover) newestVersion(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	q := p.query(ctx)
	if q == nil {
		return 0, errNotAsked
	}
	return q.rv, q.err
}

// query waits for the next query for the upstream's newest resourceVersion, and returns it. All
// readers that wait share it. It returns nil if ctx or the feed ends first.
func (p *prover) query(ctx context.Context) *versionQuery {
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

// queryLoop sends queries while readers wait.
func (p *prover) queryLoop() {
	for {
		p.mu.Lock()
		if p.next == nil {
			p.querying = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		_ = p.pace.Wait(p.ctx) // if the feed has ended, queryOnce fails
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

func (p *prover) queryOnce() (uint64, error) {
	if !p.isWatching() {
		return 0, errNotWatching
	}
	p.stats.VersionQueries.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	rv, err := p.source().NewestVersion(ctx, metav1.ListOptions{})
	if err != nil {
		p.failures.Add(1)
	}
	return resourceversion.Number(rv), err
}

// source returns the source for the next request. If several API servers share one address, a
// failing server may answer pings for hours, so that its connection stays open. Another source has
// another connection.
func (p *prover) source() source.Source {
	return p.sources[p.failures.Load()%uint64(len(p.sources))]
}

// isWatching reports whether the feed watches the upstream. If the feed has lost its watch, another
// stream cannot prove that the feed is current.
func (p *prover) isWatching() bool {
	st := p.status()
	return st.Phase == reflector.Watching && st.Err == nil
}
