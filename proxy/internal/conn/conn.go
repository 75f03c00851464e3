package conn

import (
	"cmp"
	"container/list"
	"net"
	"net/http"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Conn is an accepted connection. It is unknown until the credential of one of its requests is
// accepted. The listener's lock guards the fields from memory on.
type Conn struct {
	net.Conn
	listener *Listener
	source   string
	buffer   writeBuffer
	// These are charges to the budgets of the listener. memory is for the connection itself while it
	// is unknown. responses is for its requests (see count). heads is for the request heads that it is
	// receiving.
	memory, responses, heads *budget.Charge

	opened    time.Time
	place     *list.Element
	in        *list.List // the list that the connection is in: unknown, over or idle; nil: none
	unread    *list.Element
	accepted  bool
	overLimit bool
	quiet     bool // the HTTP server has reported that the connection has no request
	closed    bool
	since     time.Time // when reviews became larger than 0
	reviews   int       // requests whose token is not authenticated yet
	handlers  int       // requests that the proxy is handling
	streams   int       // open HTTP/2 streams
	counted   int       // requests that are charged to responses
	resets    int       // streams that the client has reset
	requests  uint64    // requests that have begun
	// unbegun contains large request heads, by stream. A head is in unbegun while it is being
	// received, and until its handler starts. There are no more entries than open streams. HTTP/1.1
	// uses stream 0.
	unbegun map[uint32]unbegunHead
	// queued is the number of bytes of the large heads whose streams were reset. The server may keep
	// such a request without a handler until the next handler returns.
	queued    int64
	head      int64     // the sum of the bytes of unbegun and queued
	headSince time.Time // when head became larger than 0
}

const (
	// maxUnknownStreams bounds the concurrent requests on an unknown connection. The next request gets
	// 429, and the connection is closed. kube-apiserver allows any client 100.
	maxUnknownStreams = 100
	// maxUnknownResets bounds how many streams the client of an unknown connection may reset before
	// their responses have ended. Each reset may cost a connection to the upstream.
	maxUnknownResets = 20
	// maxUnknownOwed bounds the PING and SETTINGS frames of an unknown client that the server has not
	// acknowledged yet.
	maxUnknownOwed = 100
	// streamBytes is the measured memory of a request whose handler has returned and whose response is
	// not written yet: a goroutine, its stack and the HTTP/2 stream. The response has up to 4 KiB.
	streamBytes = 20 << 10
	// A client certificate uses certificateFactor times its size in memory, for the parsed form and
	// the received bytes. ConnectionBytes includes usualCertificates bytes of certificates.
	certificateFactor = 4
	usualCertificates = 4 << 10
	// streamMemory bounds the memory of the requests (streamBytes each) of all connections.
	// unknownStreamMemory bounds the memory of the requests of unknown connections.
	streamMemory        = 96 << 20
	unknownStreamMemory = 32 << 20
	// UnreadTime bounds how long a client may take to read a response that fits into one buffer. On an
	// unknown connection it bounds the time for each part of any response.
	UnreadTime = 10 * time.Second
	// headTime is how long the client may take to send a large head before its connection may be
	// closed to make room for another head.
	headTime = time.Second
)

// do is like Listener.do. On a nil Conn it does nothing.
func (c *Conn) do(f func()) {
	if c != nil {
		c.listener.do(f)
	}
}

// join moves the connection to list l. The caller holds the lock.
func (c *Conn) join(l *list.List) {
	c.leave()
	c.in, c.place = l, l.PushBack(c)
}

// leave removes the connection from its list. The caller holds the lock.
func (c *Conn) leave() {
	if c.in != nil {
		c.in.Remove(c.place)
		c.in, c.place = nil, nil
	}
}

func (c *Conn) leaveUnread() {
	if c.unread != nil {
		c.listener.unread.Remove(c.unread)
		c.unread = nil
	}
}

// underReview reports whether the connection has a request whose token may be under review. The
// caller holds the lock.
func (c *Conn) underReview(now time.Time) bool {
	return c.reviews > 0 && now.Sub(c.since) < reviewTime
}

// BeginReview records that a request with an unauthenticated token has got a seat or a slot. A seat
// is a place among the short requests, and a slot is a place among the long-running ones. The
// numbers of seats and slots bound the requests under review. Until EndReview, but for at most
// reviewTime, the listener does not close the connection to make room for another one.
func (c *Conn) BeginReview() {
	c.do(func() {
		if c.reviews++; c.reviews == 1 {
			c.since = time.Now()
		}
	})
}

// EndReview must be called when a request for which BeginReview was called has released its seat or
// slot, its place among the running requests.
func (c *Conn) EndReview() { c.do(func() { c.reviews-- }) }

// Accept records that the credential of a request on the connection was accepted. From now on the
// bytes of the connection do not count as bytes of unknown connections. For a connection above the
// limit, Accept does nothing.
func (c *Conn) Accept() {
	c.do(func() {
		if c.accepted || c.closed || c.overLimit {
			return
		}
		c.accepted = true
		c.leave()
		c.memory.Release()
		c.heads.Move(known, "")
		c.responses.Move(known, "")
		c.count()
		if c.quiet {
			c.join(&c.listener.idle)
		}
	})
}

// OverLimit reports whether the connection was accepted above the limit. Its requests get 429, and
// then it is closed.
func (c *Conn) OverLimit() bool { return c != nil && c.overLimit }

// Begin records that the handler of request r starts. From now on the charge from Heads.Charge
// counts the request's head, and the connection does not. Begin returns false if the proxy must
// refuse the request: the connection is closed, or it is unknown and has too many requests.
func (c *Conn) Begin(r *http.Request) bool {
	ok := true
	c.do(func() {
		c.requests++
		c.beginHead(r)
		c.handlers++
		c.count()
		ok = !c.closed && (c.accepted || max(c.handlers, c.streams) <= maxUnknownStreams)
	})
	return ok
}

// End records that the handler of a request returns. net/http may still be writing the response.
func (c *Conn) End() {
	c.do(func() {
		c.handlers--
		c.setHead(c.head - c.queued)
		c.queued = 0
		c.count()
	})
}

// openStream records that the client opens an HTTP/2 stream. It is called before the stream's head
// is decoded. It closes an unknown connection in two cases. First, the client has more than twice
// maxUnknownStreams streams. Second, the client opens a second stream while the requests of all
// unknown connections together use more than unknownStreamMemory; requests of closed connections
// also count. In these cases openStream returns false, and the caller must not decode the
// head.
func (c *Conn) openStream() (ok bool) {
	c.do(func() {
		c.streams++
		c.count()
		if !c.accepted && (c.streams > 2*maxUnknownStreams || c.streams > 1 && c.listener.streams.Excess(unknown) > 0) {
			c.listener.evict(c, closeForStreams)
		}
		ok = !c.closed
	})
	return ok
}

// flooded closes the connection if it is unknown. It is called when the client has sent too many
// frames that the server must remember, or too many frames that it ignores.
func (c *Conn) flooded() {
	c.do(func() {
		if !c.accepted {
			c.listener.evict(c, closeForStreams)
		}
	})
}

// holdCertificates charges an unknown connection for the certificates of the client. raw is their
// size in bytes. A client may send up to 256 KB of certificates, even if it does not have their
// private keys. crypto/tls keeps the certificates as long as the connection.
func (c *Conn) holdCertificates(raw int) {
	c.do(func() {
		if c.closed || c.accepted || c.overLimit || raw <= usualCertificates {
			return
		}
		c.memory.Add(int64(raw) * certificateFactor)
		if !c.listener.makeRoom(time.Now()) {
			c.listener.evict(c, closeForMemory)
		}
	})
}

// endStreams records that HTTP/2 streams have ended. If reset is true, the client has reset them.
// Otherwise their responses are complete, or the server ignores them after a GOAWAY.
func (c *Conn) endStreams(reset bool, streams ...uint32) {
	c.do(func() {
		c.streams -= len(streams)
		for _, stream := range streams {
			if reset && c.handlers > 0 {
				c.queued += c.unbegun[stream].bytes
				delete(c.unbegun, stream)
			}
			c.dropHead(stream)
		}
		if c.unread != nil {
			c.listener.unread.MoveToBack(c.unread)
		}
		c.count()
		if reset {
			c.resets++
		}
		if !c.accepted && c.resets > maxUnknownResets {
			c.listener.evict(c, closeForResets)
		}
	})
}

// count updates the charge for the requests of the connection. For an unknown connection it counts
// all requests but one, which ConnectionBytes includes. For an accepted connection it counts the
// requests whose handler has returned and whose response the client has not read yet. If the budget
// is exceeded, count closes a connection. Among unknown connections it closes the one with the most
// requests. Among accepted ones it closes the one whose client has read nothing for the longest
// time. The caller holds the lock.
func (c *Conn) count() {
	cs := c.listener
	n, level := max(c.streams, c.handlers, 1)-1, unknown
	if c.accepted {
		n, level = max(c.streams-c.handlers, 0), known
	}
	if c.closed {
		n = c.handlers
	}
	more := n - c.counted
	if more == 0 {
		return
	}
	c.responses.Add(int64(more) * streamBytes)
	c.counted = n
	if c.closed {
		return
	}
	if n == 0 || !c.accepted {
		c.leaveUnread()
	} else if c.unread == nil {
		c.unread = cs.unread.PushBack(c)
	}
	if more < 0 || cs.streams.Excess(level) <= 0 {
		return
	}
	if level == known {
		cs.evict(cs.unread.Front().Value.(*Conn), closeForStreams)
	} else if busiest := cs.busiestUnknown(); busiest != nil && busiest.counted > 0 {
		cs.evict(busiest, closeForStreams)
	}
}

// growHead charges n more bytes for the head that a stream is receiving. fields is the number of
// fields in the head so far. growHead is called before these bytes are decoded. If there is no
// room, growHead closes unknown connections that send their heads slowly. If there is no such
// connection, it closes this connection and returns false: the caller must then not decode the
// bytes. There is one exception: an accepted connection whose heads use up to ConnectionBytes stays
// open, because other clients may have used the room. The request of this head gets 429 later.
func (c *Conn) growHead(stream uint32, n int64, fields int) (ok bool) {
	c.do(func() {
		cs := c.listener
		if c.closed {
			return
		}
		level := unknown
		if c.accepted {
			level = known
		}
		if c.unbegun == nil {
			c.unbegun = map[uint32]unbegunHead{}
		}
		c.unbegun[stream] = unbegunHead{c.unbegun[stream].bytes + n, fields}
		c.setHead(c.head + n)
		for !c.closed && cs.heads.Excess(level) > 0 {
			victim := cs.slowestHead(time.Now())
			if victim == nil && c.accepted && c.head <= ConnectionBytes {
				break
			}
			victim = cmp.Or(victim, c)
			cs.evict(victim, closeForHead)
		}
		ok = !c.closed
	})
	return ok
}

// requestsBegun returns how many requests have begun, and whether the proxy is handling one.
func (c *Conn) requestsBegun() (n uint64, working bool) {
	c.do(func() { n, working = c.requests, c.handlers > 0 })
	return n, working
}

func (c *Conn) isAccepted() (accepted bool) {
	c.do(func() { accepted = c.accepted })
	return accepted
}

// Write writes p through the write buffer.
func (c *Conn) Write(p []byte) (int, error) { return c.buffer.Write(p) }

// SetWriteDeadline sets the deadline for writes. For an unknown connection the deadline is at most
// UnreadTime from now.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if latest := time.Now().Add(UnreadTime); t.After(latest) && !c.isAccepted() {
		t = latest
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection and removes it from its listener.
func (c *Conn) Close() error {
	c.do(func() { c.listener.remove(c) })
	return c.Conn.Close()
}
