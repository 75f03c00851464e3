package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
)

// forwardedWatch is a forwarded WATCH that the proxy can end between two events, so that its client
// resumes. If a stream ended within an event, clients would report an error and list again. A WATCH
// over a WebSocket is an upgraded connection, whose events the proxy does not parse. The proxy ends
// such a WATCH by closing the connection.
type forwardedWatch struct {
	cancel context.CancelFunc // of the upstream request
	from   uint64             // the resourceVersion to resume from
	// lost is the error to answer with if the WATCH would resume from before a restore of the
	// upstream; otherwise nil.
	lost       error
	limitWrite func() // limits the time of the write in progress
	// resumable means that the client can resume after any event. initial means that it cannot resume
	// yet, because its initial events are not complete.
	resumable, initial bool

	mu       sync.Mutex
	timer    *time.Timer // ends the watch; nil: no end is scheduled
	ending   bool
	upgraded bool // to a WebSocket
	reading  bool
	canceled bool // end canceled the request between two events
	scanner  frameScanner
	last     []byte // the last bytes of the body that were read, while initial is set
}

// initialEnd is the annotation in the bookmark that ends the initial events.
var initialEnd = []byte(metav1.InitialEventsAnnotationKey)

// lastEventTimeout bounds the write that is in progress when a watch is to end.
const lastEventTimeout = 10 * time.Second

// forwardedWatches is the set of forwarded watches, with one entry for each request. The zero value
// is empty and ready to use. forwardedWatches is safe for concurrent use.
type forwardedWatches struct {
	mu    sync.Mutex
	open  map[*forwardedWatch]struct{}
	until time.Time // when all watches must have ended; zero: they need not end
}

// begin adds a WATCH to the set, and returns its entry. cancel must end the upstream request. The
// caller must call forget when the WATCH has ended.
func (fs *forwardedWatches) begin(w http.ResponseWriter, cancel context.CancelFunc) *forwardedWatch {
	p := &forwardedWatch{cancel: cancel, limitWrite: func() {
		// The writers of tests do not support deadlines.
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
	return p
}

// setStart derives from the query q at which resourceVersion the WATCH starts, and whether its
// client can resume it.
func (p *forwardedWatch) setStart(q request.Query) {
	from := q.Get("resourceVersion")
	if p.initial = q.Flag("sendInitialEvents"); p.initial || from == "" || from == "0" {
		return
	}
	p.from, p.resumable = resourceversion.Number(from), true
}

func (fs *forwardedWatches) forget(p *forwardedWatch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.open, p)
	p.stop()
}

func (fs *forwardedWatches) count() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.open)
}

// drain ends all watches, each at a random time within the given duration.
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

// upgrade records that the watch continues as an upgraded connection. If end was called before,
// upgrade ends the watch.
func (p *forwardedWatch) upgrade() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.upgraded = true; p.ending {
		p.cancel()
	}
}

// end ends the watch immediately if it is between two events or is an upgraded connection.
// Otherwise the watch ends after the current event, whose write to the client may take at most
// lastEventTimeout more.
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

// wrapBody wraps the response body of a watch, so that the proxy can end the watch between two
// events. If p.lost is set, the client must not resume the watch. wrapBody then returns p.lost,
// which replaces the response.
func (p *forwardedWatch) wrapBody(resp *http.Response) error {
	upgraded := resp.StatusCode == http.StatusSwitchingProtocols
	switch {
	case resp.StatusCode != http.StatusOK && !upgraded:
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
		// end has canceled the watch during the read. Drop the read bytes: the client gets them when it
		// resumes.
		return 0, io.EOF
	}
	whole := p.scanner.scan(to[:n])
	p.lookForInitialEnd(to[:n])
	if p.ending && whole > 0 || p.breaksOffWell(err) {
		return whole, io.EOF
	}
	return n, err
}

// lookForInitialEnd looks for initialEnd in the received bytes b. The start of initialEnd may be at
// the end of the previous bytes. If lookForInitialEnd finds initialEnd, it records that the initial
// events are complete. The caller holds the lock.
func (p *forwardedWatch) lookForInitialEnd(b []byte) {
	if !p.initial {
		return
	}
	text := slices.Concat(p.last, b)
	p.last = bytes.Clone(text[max(0, len(text)-len(initialEnd)+1):])
	if bytes.Contains(text, initialEnd) {
		p.initial, p.resumable, p.last = false, true, nil
	}
}

// breaksOffWell reports whether a stream that broke with err may end for the client without an
// error. When an API server stops, its connections break. A client without the proxy treats that as
// the end of the watch. A client of the proxy would instead see a reset HTTP/2 stream, and
// client-go would then list again.
func (p *forwardedWatch) breaksOffWell(err error) bool {
	return err != nil && brokeOff(err) && p.resumable && p.scanner.known() && p.scanner.betweenEvents()
}

// frameScanner finds the ends of events in a watch stream. If it does not know the format, it
// assumes that each read returns whole events.
type frameScanner struct {
	json, protobuf bool
	inLine         bool    // JSON: the scanned bytes end within a line
	head           [4]byte // protobuf: the received bytes of the length before the event
	headLen, left  int     // number of received bytes of head; number of missing bytes of the frame
}

func newFrameScanner(h http.Header) frameScanner {
	if h.Get("Content-Encoding") != "" {
		return frameScanner{}
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return frameScanner{json: media == runtime.ContentTypeJSON, protobuf: media == runtime.ContentTypeProtobuf}
}

func (f *frameScanner) known() bool { return f.json || f.protobuf }

// betweenEvents reports whether the scanned bytes end between two events.
func (f *frameScanner) betweenEvents() bool { return !f.inLine && f.headLen == 0 && f.left == 0 }

// scan scans the next bytes, and returns how many of them belong to complete events.
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
