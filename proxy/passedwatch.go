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

// passedWatch is a WATCH that is passed on, and can be ended between two of its events, so that its client goes on where it was. What ends in
// the midst of one is an error to clients, and they list again.
type passedWatch struct {
	cancel context.CancelFunc // of the request upstream
	limit  func()             // gives the client little time to take what is being written

	mu      sync.Mutex
	timer   *time.Timer // nil: nobody has asked for the end
	ending  bool
	reading bool
	cut     bool // the request was cancelled between two events
	frames  frames
}

// lastEvent is what a client gets to take what is being written when its watch is to end.
const lastEvent = 10 * time.Second

// endings are the watches that are passed on: as many as there are requests. The zero value is empty. Safe for concurrent use.
type endings struct {
	mu    sync.Mutex
	open  map[*passedWatch]struct{}
	until time.Time // all are to end by then; zero: none is
}

// endingKey is where a request's context has its *passedWatch.
type endingKey struct{}

// begin notes a WATCH that is about to be passed on, and returns its request. It is called with the function that ends that.
func (es *endings) begin(w http.ResponseWriter, r *http.Request, cancel context.CancelFunc) (*http.Request, *passedWatch) {
	p := &passedWatch{cancel: cancel, limit: func() {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastEvent)) // a writer that knows none is a test's
	}}
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.open == nil {
		es.open = map[*passedWatch]struct{}{}
	}
	es.open[p] = struct{}{}
	if !es.until.IsZero() {
		p.endBy(es.until)
	}
	return r.WithContext(context.WithValue(r.Context(), endingKey{}, p)), p
}

// forget is called when the watch is over.
func (es *endings) forget(p *passedWatch) {
	es.mu.Lock()
	defer es.mu.Unlock()
	delete(es.open, p)
	p.stop()
}

// drain ends all of them, each at a random moment from now until that time is over.
func (es *endings) drain(over time.Duration) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.until = time.Now().Add(over)
	for p := range es.open {
		p.endBy(es.until)
	}
}

func (p *passedWatch) endBy(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(rand.N(max(time.Until(until), 0)+1), p.end)
}

func (p *passedWatch) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.limit = func() {} // nobody may touch the writer any more
}

// end ends the watch at once if nothing of an event has come, and else behind that event.
func (p *passedWatch) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	if p.reading && p.frames.between() {
		p.cut = true
		p.cancel()
	}
	p.limit()
}

// endingAnswer is httputil.ReverseProxy.ModifyResponse: it makes the body of a watch one that can be ended.
func endingAnswer(resp *http.Response) error {
	p, ok := resp.Request.Context().Value(endingKey{}).(*passedWatch)
	if ok && resp.StatusCode == http.StatusOK {
		p.frames = framesOf(resp.Header)
		resp.Body = &endingBody{resp.Body, p}
	}
	return nil
}

// endingBody is the body of a passedWatch.
type endingBody struct {
	io.ReadCloser
	watch *passedWatch
}

func (b *endingBody) Read(to []byte) (int, error) {
	p := b.watch
	p.mu.Lock()
	if p.ending && p.frames.between() {
		p.mu.Unlock()
		return 0, io.EOF
	}
	p.reading = true
	p.mu.Unlock()
	n, err := b.ReadCloser.Read(to)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = false
	if p.cut {
		return 0, io.EOF // what has come meanwhile the client is told when it goes on
	}
	whole := p.frames.take(to[:n])
	if p.ending && whole > 0 {
		return whole, io.EOF
	}
	return n, err
}

// frames knows where the events of a watch end. A format that it does not know is taken to come in whole events.
type frames struct {
	json, protobuf bool
	inside         bool    // JSON: something of a line has come
	head           [4]byte // protobuf: the length of the frame, as far as it has come
	has, left      int     // of head, and bytes of the frame that are to come
}

func framesOf(h http.Header) frames {
	if h.Get("Content-Encoding") != "" {
		return frames{}
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return frames{json: media == runtime.ContentTypeJSON, protobuf: media == runtime.ContentTypeProtobuf}
}

// between reports whether nothing has come of an event that has not come whole.
func (f *frames) between() bool { return !f.inside && f.has == 0 && f.left == 0 }

// take takes what comes next, and returns how much of it belongs to events that are whole.
func (f *frames) take(b []byte) (whole int) {
	switch {
	case f.json:
		whole = bytes.LastIndexByte(b, '\n') + 1 // a line is an event
		f.inside = len(b) > whole || len(b) == 0 && f.inside
	case f.protobuf:
		for i := 0; i < len(b); {
			if f.left == 0 {
				n := copy(f.head[f.has:], b[i:])
				i += n
				if f.has += n; f.has < len(f.head) {
					return whole
				}
				f.left, f.has = int(binary.BigEndian.Uint32(f.head[:])), 0
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
