package conn

import (
	"container/list"
	"net"
	"net/http"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Conn is an accepted connection. It starts as unknown, and stays so until a request has a
// credential that was accepted. The listener's lock guards the fields below it.
type Conn struct {
	net.Conn
	listener *Listener
	source   string
	buffer   writeBuffer
	// memory has the bytes of the connection itself while it is unknown, responses those of its
	// requests, see count, and heads those of the heads that it receives.
	memory, responses, heads *budget.Charge

	opened    time.Time
	place     *list.Element
	in        *list.List // unknown, over or idle; nil: none
	unread    *list.Element
	accepted  bool
	overLimit bool
	quiet     bool // no request, as the server says
	closed    bool
	since     time.Time // since when reviews is not 0
	reviews   int       // requests with a token that is not known yet
	handlers  int       // requests that the proxy works on
	streams   int       // open streams of HTTP/2
	counted   int       // requests whose bytes responses has
	resets    int       // streams that the client has reset
	requests  uint64    // requests that began
	// unbegun has the large heads that are received, or whose requests have not begun, by stream;
	// no more than open streams. HTTP/1.1 has stream 0.
	unbegun map[uint32]unbegunHead
	// queued is the bytes of those whose streams were reset. The server may keep a request for which
	// it has no handler yet until the next handler ends.
	queued    int64
	head      int64     // bytes of unbegun, and queued
	headSince time.Time // since when there are some
}

const (
	// maxUnknownStreams bounds the requests at the same time on an unknown connection. The next one
	// gets 429, and the connection is closed. kube-apiserver lets any client have 100.
	maxUnknownStreams = 100
	// maxUnknownResets bounds the streams that the client of an unknown connection resets before
	// their responses have ended. Each of them may cost a connection to the upstream.
	maxUnknownResets = 20
	// maxUnknownOwed bounds the pings and settings of such a client that are not acknowledged yet.
	maxUnknownOwed = 100
	// streamBytes is the measured memory of a request of which the proxy has only the response, of
	// up to httpBufferSize: a goroutine, its stack, and the stream of HTTP/2.
	streamBytes = 20 << 10
	// certificateFactor is the memory of a certificate by its size, parsed and as it came.
	// ConnectionBytes includes usualCertificates.
	certificateFactor = 4
	usualCertificates = 4 << 10
	// streamMemory bounds them for all connections, unknownStreamMemory for the unknown ones.
	streamMemory        = 96 << 20
	unknownStreamMemory = 32 << 20
	// UnreadTime bounds how long a client may take for a response that fits into one buffer, or for
	// a part of any response that comes by an unknown connection.
	UnreadTime = 10 * time.Second
	// headTime is how long a large head may take before its connection is closed for another one.
	headTime = time.Second
)

// join moves the connection to a list. The caller holds the lock.
func (c *Conn) join(l *list.List) {
	c.leave()
	if c.opened.IsZero() {
		c.opened = time.Now()
	}
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

// BeginReview notes that a request with a token that is not known yet has a seat or a slot, which
// bound the number of such requests.
func (c *Conn) BeginReview() {
	if c == nil {
		return
	}
	c.listener.do(func() {
		if c.reviews++; c.reviews == 1 {
			c.since = time.Now()
		}
	})
}

// EndReview notes that such a request has left its seat or slot.
func (c *Conn) EndReview() {
	if c != nil {
		c.listener.do(func() { c.reviews-- })
	}
}

// Accept notes that a request of the connection has an accepted credential. Its bytes are not those
// of unknown connections any more.
func (c *Conn) Accept() {
	if c == nil {
		return
	}
	c.listener.do(func() {
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

// OverLimit reports whether the connection is above the limit. Its requests get 429, and it is
// closed.
func (c *Conn) OverLimit() bool { return c != nil && c.overLimit }

// Begin notes that a request begins, whose head counts from now on elsewhere. It returns false if
// the connection is unknown and has too many requests.
func (c *Conn) Begin(r *http.Request) (ok bool) {
	if c == nil {
		return true
	}
	c.listener.do(func() {
		c.requests++
		c.beginHead(r)
		c.handlers++
		c.count()
		ok = !c.closed && (c.accepted || max(c.handlers, c.streams) <= maxUnknownStreams)
	})
	return ok
}

// End notes that the proxy has done its part for a request. net/http may still write the response.
func (c *Conn) End() {
	if c == nil {
		return
	}
	c.listener.do(func() {
		c.handlers--
		c.setHead(c.head - c.queued)
		c.queued = 0
		c.count()
	})
}

// openStream notes that the client opens a stream of HTTP/2, before its head is decoded, which must
// not be if openStream returns false: then the connection is closed. It is if it is unknown and its
// client ignores all bounds, or has another stream while closed connections still use the memory of
// requests.
func (c *Conn) openStream() (ok bool) {
	c.listener.do(func() {
		c.streams++
		c.count()
		if !c.accepted && (c.streams > 2*maxUnknownStreams || c.streams > 1 && c.listener.streams.Excess(unknown) > 0) {
			c.listener.evict(c, closeForStreams)
		}
		ok = !c.closed
	})
	return ok
}

// flooded closes the connection if it is unknown: its client sends what the server must remember,
// or ignores.
func (c *Conn) flooded() {
	c.listener.do(func() {
		if !c.accepted {
			c.listener.evict(c, closeForStreams)
		}
	})
}

// holdCertificates counts the certificates that the client has sent: up to 256 KB of them, which it
// need not own. crypto/tls keeps them as long as the connection.
func (c *Conn) holdCertificates(raw int) {
	c.listener.do(func() {
		if c.closed || c.accepted || c.overLimit || raw <= usualCertificates {
			return
		}
		c.memory.Add(int64(raw) * certificateFactor)
		if !c.listener.makeRoom(time.Now()) {
			c.listener.evict(c, closeForMemory)
		}
	})
}

// endStreams notes that streams have ended, by the response or by a reset of the client.
func (c *Conn) endStreams(reset bool, streams ...uint32) {
	c.listener.do(func() {
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

// count counts the bytes of the requests: if the connection is unknown, of all but one, which
// ConnectionBytes includes, and otherwise of those whose handler has returned and whose response
// was not read yet. Above the bound it closes the connection with the most requests of the unknown
// ones, or of the others the one whose client has read nothing for longest. The caller holds the
// lock.
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
	switch {
	case n == 0 || !c.accepted:
		c.leaveUnread()
	case c.unread == nil:
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

// growHead counts n more bytes of the head of a stream, and the number of its fields up to now,
// before they are decoded. It returns false if there is no room for them: then the connection is
// closed, and they must not be decoded. The connection takes the room of an unknown one that sends
// its head slowly. An accepted connection is not closed for a head of up to ConnectionBytes, since
// others may use the room: its request gets 429.
func (c *Conn) growHead(stream uint32, n int64, fields int) (ok bool) {
	c.listener.do(func() {
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
			if victim == nil {
				victim = c
			}
			cs.evict(victim, closeForHead)
		}
		ok = !c.closed
	})
	return ok
}

// requestsBegun returns the number of requests that began, and whether the proxy works on one.
func (c *Conn) requestsBegun() (n uint64, working bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.requests, c.handlers > 0
}

// isAccepted reports whether a request had an accepted credential.
func (c *Conn) isAccepted() bool {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.accepted
}

// Write writes through the write buffer.
func (c *Conn) Write(p []byte) (int, error) { return c.buffer.Write(p) }

// SetWriteDeadline sets the deadline of a write. The client of an unknown connection has seconds to
// take something.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if latest := time.Now().Add(UnreadTime); t.After(latest) && !c.isAccepted() {
		t = latest
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection and removes it from the listener.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
