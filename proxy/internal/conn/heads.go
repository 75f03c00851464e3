package conn

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/url"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// The decoded head of a request (request line and headers) is much larger than the received bytes:
// HTTP/2 compresses it, and each field uses memory in addition to its text. The heads of all
// requests therefore share a budget. The charge for a head ends when its handler returns, although
// net/http keeps the request until the client has read the response. Therefore ReleaseHead clears
// the head.
const (
	// fieldBytes is the measured overhead of a field: in the frame, in the header map and in the copy
	// that the proxy forwards.
	fieldBytes = 160
	// smallHead is the memory of a usual head. A head of up to smallHead is never refused: package
	// seats bounds the number of requests, and half of the budget is reserved for such heads.
	smallHead  = 16 << 10
	headMemory = 64 << 20
	// unknownHeadMemory bounds the heads above smallHead of callers without an accepted credential. It
	// also bounds such heads while unknown connections are receiving them.
	unknownHeadMemory = 16 << 20
	// maxFields bounds the fields of an HTTP/1.1 head. An HTTP/2 head has fewer: it is limited to
	// maxHeader bytes, in which each field counts as 32 bytes more than its text.
	maxFields = 10_000
)

// Heads bounds the memory of the heads of all requests. It is safe for concurrent use.
type Heads struct{ *budget.Budget }

// small is the level (the kind of user of the budget) for small heads in the budget of Heads. The
// other levels are unknown and known.
const small = known + 1

// NewHeads returns the budget of the heads of one listener.
func NewHeads() Heads {
	return Heads{budget.New(headMemory,
		budget.Level{Name: "unknown", Most: unknownHeadMemory}, budget.Level{Name: "known"}, budget.Level{Name: "small", Reserved: headMemory / 2})}
}

// HeadBytes estimates the memory of the head of a request, in bytes.
func HeadBytes(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += fieldBytes + len(name) + len(value)
		}
	}
	return int64(n)
}

// Charge charges the budget for the head of a request. It returns the charge, or nil if there is no
// room. It calls isKnown only for a large head. isKnown reports whether the caller's credential was
// accepted.
func (h Heads) Charge(r *http.Request, isKnown func() bool) *budget.Charge {
	n, level := HeadBytes(r), small
	if n > smallHead {
		if level = unknown; isKnown() {
			level = known
		}
	}
	c := h.NewCharge(level, "")
	if level == small {
		c.Add(n)
		return c
	}
	if c.Grow(n) != nil {
		return nil
	}
	return c
}

// ReleaseHead clears the head of an answered request, so that its memory can be freed.
func ReleaseHead(r *http.Request) {
	r.Header, r.Trailer, r.Form, r.PostForm = nil, nil, nil, nil
	r.URL, r.RequestURI, r.Host, r.Pattern = &url.URL{}, "", "", ""
}

// http1Conn is an HTTP/1.1 connection that counts the bytes of a head that is still incomplete.
type http1Conn struct {
	*tls.Conn
	client   *Conn
	requests uint64 // requests that had begun when this head began
	head     int64  // memory of the head so far
	lines    int
}

// Read reads from the connection, and counts the bytes received before a request begins.
func (hc *http1Conn) Read(p []byte) (int, error) {
	n, err := hc.Conn.Read(p)
	begun, working := hc.client.requestsBegun()
	if begun != hc.requests || working {
		hc.requests, hc.head, hc.lines = begun, 0, 0
	}
	if working || n == 0 {
		return n, err
	}
	lines := bytes.Count(p[:n], []byte{'\n'})
	if hc.lines += lines; hc.lines > maxFields {
		_ = hc.client.Close()
		return 0, errHeadTooLarge
	}
	before := max(hc.head-smallHead, 0)
	hc.head += int64(2*n + lines*fieldBytes)
	if more := max(hc.head-smallHead, 0) - before; more > 0 && !hc.client.growHead(0, more, hc.lines) {
		return 0, errHeadTooLarge
	}
	return n, err
}

// unbegunHead is a large request head whose handler has not started. If the HTTP server answers 400
// or 431 itself, the handler never starts. The head then counts until its stream ends.
type unbegunHead struct {
	bytes  int64 // beyond smallHead
	fields int
}

// unmappedFields is the maximum number of HTTP/2 fields that are not in Request.Header:
// pseudo-header fields, whose names start with a colon, and fields that the server removes.
const unmappedFields = 8

// mayBe reports whether u may be the head of a request with the given numbers of fields and bytes.
// u.bytes is an estimate, which may be up to three times the number of bytes of the request.
func (u unbegunHead) mayBe(fields int, bytes int64) bool {
	more := u.fields - fields
	return more >= 0 && more <= unmappedFields && u.bytes <= 3*bytes
}

// beginHead stops counting the head of request r, whose handler starts. In HTTP/2, the server does
// not say on which stream r was received, so beginHead chooses a head of about the same size (see
// mayBe). beginHead does nothing for an HTTP/2 request with a usual head. The caller holds the
// lock.
func (c *Conn) beginHead(r *http.Request) {
	if c.head == 0 {
		return
	}
	if r.ProtoMajor == 1 {
		c.dropHead(0)
		return
	}
	n := HeadBytes(r)
	if n <= smallHead/2 { // headerBlock's estimate may be twice as high as n
		return
	}
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	for stream, u := range c.unbegun {
		if u.mayBe(fields, n) {
			c.dropHead(stream)
			return
		}
	}
}

// dropHead stops counting the bytes of the unbegun head of a stream, if the stream has one. The
// caller holds the lock.
func (c *Conn) dropHead(stream uint32) {
	u, ok := c.unbegun[stream]
	if !ok {
		return
	}
	if delete(c.unbegun, stream); len(c.unbegun) == 0 {
		c.unbegun = nil
	}
	c.setHead(c.head - u.bytes)
}

// ignoreHead stops counting the head of a stream that the server ignores. It is called when the
// head has been decoded.
func (c *Conn) ignoreHead(stream uint32) {
	c.do(func() { c.dropHead(stream) })
}

// setHead sets c.head to n bytes and charges for the difference. The caller holds the lock.
func (c *Conn) setHead(n int64) {
	if !c.closed && n != c.head {
		if c.head == 0 {
			c.headSince = time.Now()
		}
		c.heads.Add(n - c.head)
		c.head = n
	}
}
