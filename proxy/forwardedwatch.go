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

	"k8s.io/apimachinery/pkg/runtime"
)

// forwardedWatch is a WATCH that is passed on, and can be ended between two of its events, so that
// its client goes on where it was. What ends in the midst of one is an error to clients, and they
// list again.
type forwardedWatch struct {
	cancel     context.CancelFunc // of the request upstream
	limitWrite func()             // gives the client little time to take what is being written

	mu       sync.Mutex
	timer    *time.Timer // nil: nobody has asked for the end
	ending   bool
	reading  bool
	canceled bool // the request was cancelled between two events
	scanner  frameScanner
}

// lastEventTimeout is what a client gets to take what is being written when its watch is to end.
const lastEventTimeout = 10 * time.Second

// forwardedWatches are the watches that are passed on: as many as there are requests. The zero
// value is empty. Safe for concurrent use.
type forwardedWatches struct {
	mu    sync.Mutex
	open  map[*forwardedWatch]struct{}
	until time.Time // all are to end by then; zero: none is
}

// forwardedWatchKey is where a request's context has its *forwardedWatch.
type forwardedWatchKey struct{}

// begin notes a WATCH that is about to be passed on, and returns its request. It is called with the
// function that ends that.
func (fs *forwardedWatches) begin(w http.ResponseWriter, r *http.Request, cancel context.CancelFunc) (*http.Request, *forwardedWatch) {
	p := &forwardedWatch{cancel: cancel, limitWrite: func() {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastEventTimeout)) // a writer that knows none is a test's
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

// forget is called when the watch is over.
func (fs *forwardedWatches) forget(p *forwardedWatch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.open, p)
	p.stop()
}

// drain ends all of them, each at a random moment from now until that time is over.
func (fs *forwardedWatches) drain(over time.Duration) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.until = time.Now().Add(over)
	for p := range fs.open {
		p.endBy(fs.until)
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
	p.limitWrite = func() {} // nobody may touch the writer any more
}

// end ends the watch at once if nothing of an event has come, and else behind that event.
func (p *forwardedWatch) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	if p.reading && p.scanner.betweenEvents() {
		p.canceled = true
		p.cancel()
	}
	p.limitWrite()
}

// wrapWatchBody is httputil.ReverseProxy.ModifyResponse: it makes the body of a watch one that can
// be ended.
func wrapWatchBody(resp *http.Response) error {
	p, ok := resp.Request.Context().Value(forwardedWatchKey{}).(*forwardedWatch)
	if ok && resp.StatusCode == http.StatusOK {
		p.scanner = newFrameScanner(resp.Header)
		resp.Body = &forwardedBody{resp.Body, p}
	}
	return nil
}

// forwardedBody is the body of a forwardedWatch.
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
		return 0, io.EOF // what has come meanwhile the client is told when it goes on
	}
	whole := p.scanner.scan(to[:n])
	if p.ending && whole > 0 {
		return whole, io.EOF
	}
	return n, err
}

// frameScanner knows where the events of a watch end. A format that it does not know is taken to
// come in whole events.
type frameScanner struct {
	json, protobuf bool
	inLine         bool    // JSON: something of a line has come
	head           [4]byte // protobuf: the length of the frame, as far as it has come
	headLen, left  int     // of head, and bytes of the frame that are to come
}

func newFrameScanner(h http.Header) frameScanner {
	if h.Get("Content-Encoding") != "" {
		return frameScanner{}
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return frameScanner{json: media == runtime.ContentTypeJSON, protobuf: media == runtime.ContentTypeProtobuf}
}

// betweenEvents reports whether nothing has come of an event that has not come whole.
func (f *frameScanner) betweenEvents() bool { return !f.inLine && f.headLen == 0 && f.left == 0 }

// scan takes what comes next, and returns how much of it belongs to events that are whole.
func (f *frameScanner) scan(b []byte) (whole int) {
	switch {
	case f.json:
		whole = bytes.LastIndexByte(b, '\n') + 1 // a line is an event
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
