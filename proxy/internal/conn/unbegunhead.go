package conn

import (
	"net/http"
	"time"
)

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
