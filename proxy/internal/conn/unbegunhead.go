package conn

import (
	"net/http"
	"time"
)

// unbegunHead is a large head of which no request has begun. None begins if the HTTP server answers
// it itself, with 400 or 431: then the head counts until its stream ends.
type unbegunHead struct {
	bytes  int64 // beyond smallHead
	fields int
}

// unmappedFields bounds the fields of HTTP/2 that are not in Request.Header: those with a colon,
// and those that the server takes out.
const unmappedFields = 8

// mayBe reports whether this may be the head of a request with the given numbers of fields and
// bytes. Its own estimate may be up to three times that of the request.
func (u unbegunHead) mayBe(fields int, bytes int64) bool {
	more := u.fields - fields
	return more >= 0 && more <= unmappedFields && u.bytes <= 3*bytes
}

// beginHead releases the head of a request that begins. The server does not say of which stream it
// is, so one of its size is. A usual head releases none. The caller holds the lock.
func (c *Conn) beginHead(r *http.Request) {
	if c.head == 0 {
		return
	}
	if r.ProtoMajor == 1 {
		c.dropHead(0)
		return
	}
	n := HeadBytes(r)
	if n <= smallHead/2 { // the estimate before was up to twice as high
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

// dropHead releases the head of a stream, if that has one. The caller holds the lock.
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

// ignoreHead releases the head of a stream that the server ignores, once it was decoded.
func (c *Conn) ignoreHead(stream uint32) {
	c.listener.do(func() { c.dropHead(stream) })
}

// setHead sets the bytes of the heads. The caller holds the lock.
func (c *Conn) setHead(n int64) {
	if !c.closed && n != c.head {
		if c.head == 0 {
			c.headSince = time.Now()
		}
		c.heads.Add(n - c.head)
		c.head = n
	}
}
