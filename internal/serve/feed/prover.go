package feed

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

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
// All readers that wait when the LIST is sent share its result. All readers that wait when a short
// WATCH is opened share that WATCH. While a reader waits, one goroutine sends the LISTs and another
// one opens the short WATCHes. close ends both goroutines.
type prover struct {
	ctx     context.Context // ends with close
	cancel  context.CancelFunc
	sources []source.Source // used in turn: the next one after each failure
	sink    *sink
	status  func() reflector.Status
	queries *turns // LISTs
	watches *turns // short WATCHes
	// timeout is how long a read waits for a proof. It also bounds a query and a short WATCH.
	timeout time.Duration
	stats   *Stats

	failures atomic.Uint64 // failed requests to sources
	// provenAt is when the prover sent the newest query whose version the feed has reached, in Unix
	// nanoseconds. 0: never.
	provenAt atomic.Int64

	mu sync.Mutex
	// silent is the number of consecutive short WATCHes that were silent, see noteSilence. silentAt is
	// when the last of them ended.
	silent   int
	silentAt time.Time
}

const (
	// By default, kube-apiserver has no watch cache for Events. It sends a bookmark to a WATCH of
	// Events only when etcd reports its progress. After maxSilent consecutive silent WATCHes, the
	// prover opens no short WATCH for silentRest. Meanwhile a read waits only silentWait: a change of
	// the resource may arrive in this time, and serve as proof.
	maxSilent  = 3
	silentRest = time.Minute
	silentWait = 200 * time.Millisecond
	// defaultProofTimeout is Config.ProofTimeout's default.
	defaultProofTimeout = 3 * time.Second
)

var errNotWatching = errors.New("the upstream is not being watched")

func newProver(sources []source.Source, sk *sink, status func() reflector.Status, timeout time.Duration) *prover {
	p := &prover{sources: sources, sink: sk, status: status, timeout: timeout, stats: sk.stats}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.queries, p.watches = newTurns(p.ctx, p.queryOnce), newTurns(p.ctx, p.watchOnce)
	return p
}

// newProofSource returns the first source for proofs. Its LISTs and WATCHes share one HTTP/2
// connection, so that both reach the same API server if several servers share one address. The LIST
// makes that server request its progress from etcd, so the server soon has a bookmark for the
// WATCH. If another server received the WATCH, its watch cache could be 5 s behind the LIST while
// nothing changes. A newly created watch cache would send no bookmark at all.
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
	p.queries.close()
	p.watches.close()
}

// proveCurrent implements Feed.ProveCurrent.
func (p *prover) proveCurrent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	q, err := p.query(ctx)
	if err != nil || q.rv == 0 || q.rv < q.before || !p.waitFor(ctx, q.rv) {
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
	q, err := p.query(ctx)
	if err != nil {
		return 0, err
	}
	return q.rv, nil
}

// query waits until the next query for the upstream's newest resourceVersion has ended, and returns
// its turn, which contains the result. It returns an error if the query fails, or if ctx or the
// feed ends first.
func (p *prover) query(ctx context.Context) (*turn, error) {
	t := p.queries.join()
	defer p.queries.leave(t)
	select {
	case <-t.over.Done():
		return t, t.err
	case <-ctx.Done():
		return nil, errNotAsked
	}
}

// queryOnce sends a query and sets the result in t.
func (p *prover) queryOnce(t *turn) {
	t.sent, t.before = time.Now(), p.sink.version()
	if !p.isWatching() {
		t.err = errNotWatching
		return
	}
	p.stats.VersionQueries.Add(1)
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	rv, err := p.source().NewestVersion(ctx, metav1.ListOptions{})
	if err != nil {
		p.failures.Add(1)
	}
	t.rv, t.err = resourceversion.Number(rv), err
}

// source returns the source for the next request. It changes to the other source after each failed
// request. The other source has a separate connection. That matters if several API servers share
// one address: a failing server may answer pings for hours, so that the connection to it stays
// open.
func (p *prover) source() source.Source {
	return p.sources[p.failures.Load()%uint64(len(p.sources))]
}

// isWatching reports whether the feed watches the upstream. If the feed has lost its watch, another
// stream cannot prove that the feed is current.
func (p *prover) isWatching() bool {
	st := p.status()
	return st.Phase == reflector.Watching && st.Err == nil
}
