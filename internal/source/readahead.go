package source

import (
	"io"
	"net"
	"sync"
)

// readAhead reads a body in a goroutine of its own: receiving and decrypting it go on while what has
// come is taken apart. What has come and not been read is in a ring; when that is full the
// goroutine waits, and so does the server. Time in which the server sends nothing counts as such
// while there is room for it. The goroutine begins with the first Read and ends with the body, an
// error, or stop.
type readAhead struct {
	src    io.Reader         // used by the goroutine alone
	before func()            // called before a Read that has to wait, or nil
	ended  func(error) error // the error of a Read after stop

	mu      sync.Mutex
	change  sync.Cond // of anything below
	begun   bool
	ring    *[readAheadMost]byte // lent from rings; nil while it would be empty
	from, n int                  // where what has come begins, and how much it is
	err     error                // after that
	stopped bool
}

// What one watch holds, in bytes: watches are many, and idle for the most part, but bursts of
// events come all at once.
const (
	readAheadLeast = 16 << 10  // to read into
	readAheadMost  = 256 << 10 // more, while something waits to be read
)

// rings holds rings from one burst to the next.
var rings = sync.Pool{New: func() any { return new([readAheadMost]byte) }}

func newReadAhead(src io.Reader, ended func(error) error) *readAhead {
	a := &readAhead{src: src, ended: ended}
	a.change.L = &a.mu
	return a
}

// Read returns what has come, and waits only for the first byte.
func (a *readAhead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun && !a.stopped {
		a.begun = true
		go a.run()
	}
	a.wait()
	switch {
	case a.stopped:
		return 0, a.ended(net.ErrClosed)
	case a.n == 0:
		return 0, a.err
	}
	n := copy(p, a.ring[a.from:min(a.from+a.n, readAheadMost)])
	if a.n == readAheadMost {
		a.change.Signal() // the goroutine may be waiting for room
	}
	a.from, a.n = (a.from+n)%readAheadMost, a.n-n
	if a.n == 0 {
		rings.Put(a.ring)
		a.ring, a.from = nil, 0
	}
	return n, nil
}

// wait waits for something to come.
func (a *readAhead) wait() {
	if a.before != nil && a.n == 0 && a.err == nil && !a.stopped {
		a.mu.Unlock()
		a.before()
		a.mu.Lock()
	}
	for a.n == 0 && a.err == nil && !a.stopped {
		a.change.Wait()
	}
}

// run reads until there is nothing more to read, or nobody to read it.
func (a *readAhead) run() {
	buf := make([]byte, readAheadLeast)
	for more := true; more; {
		n, err := a.src.Read(buf)
		more = a.take(buf[:n], err)
	}
}

// take hands on what one Read has brought, and waits for room. It reports false at the end.
func (a *readAhead) take(p []byte, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(p) > 0 && !a.stopped {
		if a.n == readAheadMost {
			a.change.Wait()
			continue
		}
		if a.n == 0 {
			a.change.Signal()
		}
		if a.ring == nil {
			a.ring = rings.Get().(*[readAheadMost]byte)
		}
		to := (a.from + a.n) % readAheadMost
		n := copy(a.ring[to:min(readAheadMost, to+readAheadMost-a.n)], p)
		a.n, p = a.n+n, p[n:]
	}
	if a.err = err; err != nil {
		a.change.Broadcast()
	}
	return err == nil && !a.stopped
}

// stop ends the goroutine once its Read returns, which closing the body is for.
func (a *readAhead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.change.Broadcast()
}
