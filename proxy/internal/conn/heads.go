package conn

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/url"

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
