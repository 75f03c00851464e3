package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
)

// forwardedWatch is a forwarded WATCH that can be ended between two events, so that its client
// resumes. A stream that ends within an event is an error to clients, which then list again. One
// over a WebSocket is an upgraded connection, whose events are not looked at: it ends by being
// closed.
type forwardedWatch struct {
	cancel     context.CancelFunc // of the upstream request
	from       uint64             // the resourceVersion to resume from
	lost       error              // that is from before the upstream went back; nil: it is not
	limitWrite func()             // limits the time of the current write
	// resumable says that its client can go on after any event. initial is one that cannot yet: its
	// initial events are not complete.
	resumable, initial bool

	mu       sync.Mutex
	timer    *time.Timer // ends it; nil: not at a certain time
	ending   bool
	upgraded bool // to a WebSocket
	reading  bool
	canceled bool // cancelled between two events
	scanner  frameScanner
	last     []byte // of the body, while initial: what may be the beginning of initialEnd
}

// initialEnd is in the bookmark that ends initial events.
var initialEnd = []byte(metav1.InitialEventsAnnotationKey)

// lastEventTimeout is how long the write in progress may take when a watch is to end.
const lastEventTimeout = 10 * time.Second

// forwardedWatches is the set of forwarded watches, one for each such request. The zero value is
// empty. It is safe for concurrent use.
type forwardedWatches struct {
	mu    sync.Mutex
	open  map[*forwardedWatch]struct{}
	until time.Time // when all must have ended; zero: no drain
}

// forwardedWatchKey is the context key of a request's *forwardedWatch.
type forwardedWatchKey struct{}

// begin adds a WATCH, and returns its request and its entry. cancel ends the upstream request.
func (fs *forwardedWatches) begin(w http.ResponseWriter, r *http.Request, cancel context.CancelFunc) (*http.Request, *forwardedWatch) {
	p := &forwardedWatch{cancel: cancel, limitWrite: func() {
		// The writers of tests do not support it.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastEventTimeout))
	}}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.open == nil {
		fs.open = map[*forwardedWatch]struct{}{}
	}
	fs.open[p] = struct{}{}
	if !fs.until.IsZero() {
		p.endBy(fs.until)
	}
	return r.WithContext(context.WithValue(r.Context(), forwardedWatchKey{}, p)), p
}

// setStart sets where the WATCH starts by its query.
func (p *forwardedWatch) setStart(q request.Query) {
	from := q.Get("resourceVersion")
	if p.initial = q.Flag("sendInitialEvents"); p.initial || from == "" || from == "0" {
		return
	}
	p.from, p.resumable = resourceversion.Number(from), true
}

// forget removes a watch that has ended.
func (fs *forwardedWatches) forget(p *forwardedWatch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.open, p)
	p.stop()
}

// count returns the number of watches.
func (fs *forwardedWatches) count() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.open)
}

// drain ends all watches, each at a random time within over.
func (fs *forwardedWatches) drain(over time.Duration) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.until = time.Now().Add(over)
	for p := range fs.open {
		p.endBy(fs.until)
	}
}

// endAll ends all watches that are open now.
func (fs *forwardedWatches) endAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for p := range fs.open {
		p.end()
	}
}

func (p *forwardedWatch) endBy(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(rand.N(max(time.Until(until), 0)+1), p.end)
}

func (p *forwardedWatch) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.limitWrite = func() {} // the writer must not be used any more
}

// upgrade notes that the watch goes on as an upgraded connection.
func (p *forwardedWatch) upgrade() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.upgraded = true; p.ending {
		p.cancel()
	}
}

// end ends the watch at once if it is between two events, or an upgraded connection, and else after
// the current event.
func (p *forwardedWatch) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	if p.upgraded || p.reading && p.scanner.betweenEvents() {
		p.canceled = true
		p.cancel()
	}
	p.limitWrite()
}

// wrapWatchBody wraps the body of a watch, so that it can be ended. It returns an error, with which
// the request is to be answered and recorded, in place of a watch that is lost.
func wrapWatchBody(resp *http.Response) error {
	p, ok := resp.Request.Context().Value(forwardedWatchKey{}).(*forwardedWatch)
	upgraded := resp.StatusCode == http.StatusSwitchingProtocols
	switch {
	case !ok || resp.StatusCode != http.StatusOK && !upgraded:
	case p.lost != nil:
		return p.lost
	case upgraded:
		p.upgrade()
	default:
		p.scanner = newFrameScanner(resp.Header)
		resp.Body = &forwardedBody{resp.Body, p}
	}
	return nil
}

// forwardedBody is the response body of a forwardedWatch.
type forwardedBody struct {
	io.ReadCloser
	watch *forwardedWatch
}

func (b *forwardedBody) Read(to []byte) (int, error) {
	p := b.watch
	p.mu.Lock()
	if p.ending && p.scanner.betweenEvents() {
		p.mu.Unlock()
		return 0, io.EOF
	}
	p.reading = true
	p.mu.Unlock()
	n, err := b.ReadCloser.Read(to)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = false
	if p.canceled {
		return 0, io.EOF // the client gets what came meanwhile when it resumes
	}
	whole := p.scanner.scan(to[:n])
	p.lookForInitialEnd(to[:n])
	if p.ending && whole > 0 || p.breaksOffWell(err) {
		return whole, io.EOF
	}
	return n, err
}

// lookForInitialEnd notes whether the initial events are complete by what comes. The caller holds
// the lock.
func (p *forwardedWatch) lookForInitialEnd(b []byte) {
	if !p.initial {
		return
	}
	edge := append(p.last, b[:min(len(b), len(initialEnd)-1)]...)
	if bytes.Contains(b, initialEnd) || bytes.Contains(edge, initialEnd) {
		p.initial, p.resumable, p.last = false, true, nil
		return
	}
	if len(b) >= len(initialEnd) {
		edge = append(edge[:0], b[len(b)-len(initialEnd)+1:]...)
	}
	p.last = append(p.last[:0], edge[max(0, len(edge)-len(initialEnd)+1):]...)
}

// breaksOffWell reports whether a stream that broke off may end as one that is over. Where an API
// server goes, its connection breaks, and a client of its own takes that for the end. The proxy's
// would get an HTTP/2 stream that was reset, and client-go's would then list.
func (p *forwardedWatch) breaksOffWell(err error) bool {
	return err != nil && brokeOff(err) && p.resumable && p.scanner.known() && p.scanner.betweenEvents()
}

// frameScanner finds the ends of events in a watch stream. In an unknown format it takes each read
// for whole events.
type frameScanner struct {
	json, protobuf bool
	inLine         bool    // JSON: within a line
	head           [4]byte // protobuf: the frame's length, as far as read
	headLen, left  int     // bytes of head read; bytes of the frame missing
}

func newFrameScanner(h http.Header) frameScanner {
	if h.Get("Content-Encoding") != "" {
		return frameScanner{}
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return frameScanner{json: media == runtime.ContentTypeJSON, protobuf: media == runtime.ContentTypeProtobuf}
}

// known reports whether the format is known, so that the ends of events are.
func (f *frameScanner) known() bool { return f.json || f.protobuf }

// betweenEvents reports whether the stream stands between two events.
func (f *frameScanner) betweenEvents() bool { return !f.inLine && f.headLen == 0 && f.left == 0 }

// scan reads the next bytes, and returns how many of them belong to complete events.
func (f *frameScanner) scan(b []byte) (whole int) {
	switch {
	case f.json:
		whole = bytes.LastIndexByte(b, '\n') + 1 // an event is a line
		f.inLine = len(b) > whole || len(b) == 0 && f.inLine
	case f.protobuf:
		for i := 0; i < len(b); {
			if f.left == 0 {
				n := copy(f.head[f.headLen:], b[i:])
				i += n
				if f.headLen += n; f.headLen < len(f.head) {
					return whole
				}
				f.left, f.headLen = int(binary.BigEndian.Uint32(f.head[:])), 0
			}
			n := min(f.left, len(b)-i)
			i, f.left = i+n, f.left-n
			if f.left == 0 {
				whole = i
			}
		}
	default:
		whole = len(b)
	}
	return whole
}
