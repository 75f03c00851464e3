package source

import (
	"io"
	"net"
	"sync"
)

// readAhead reads a body in a separate goroutine, so that the network and the reader work at the
// same time. Received bytes that were not read yet are in a ring of at most maxReadAhead
// bytes. While the ring is full the goroutine waits, and the server with it. The goroutine starts
// with the first Read or Wait. It ends at the end of the body, with an error, or by stop.
type readAhead struct {
	src    io.Reader         // used only by the goroutine
	before func()            // called before a Read that has to wait; may be nil
	ended  func(error) error // makes the error of a Read after stop

	mu      sync.Mutex
	change  sync.Cond // signals a change of any field below
	started bool
	ring    *[maxReadAhead]byte // borrowed from rings; nil while it is empty
	from, n int                 // start and number of the unread bytes
	err     error               // returned once the ring is empty
	stopped bool
}

// Sizes of a watch's buffers, in bytes. Most watches are idle most of the time, but events come in
// bursts.
const (
	minReadBuffer   = 2 << 10   // the goroutine's own read buffer
	burstReadBuffer = 16 << 10  // the one it reads into while bytes come fast
	maxReadAhead    = 256 << 10 // the ring, held only while there are unread bytes
)

// bursts and rings keep read buffers and rings for reuse from one burst of events to the next.
var (
	bursts = sync.Pool{New: func() any { return new([burstReadBuffer]byte) }}
	rings  = sync.Pool{New: func() any { return new([maxReadAhead]byte) }}
)

func newReadAhead(src io.Reader, ended func(error) error) *readAhead {
	a := &readAhead{src: src, ended: ended}
	a.change.L = &a.mu
	return a
}

// Ready reports whether a Read would return without waiting.
func (a *readAhead) Ready() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n > 0 || a.err != nil || a.stopped
}

// Wait blocks until a Read would return without waiting.
func (a *readAhead) Wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start()
	a.wait()
}

// Read returns received bytes. It blocks only while there are none.
func (a *readAhead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start()
	a.wait()
	switch {
	case a.stopped:
		return 0, a.ended(net.ErrClosed)
	case a.n == 0:
		return 0, a.err
	}
	n := copy(p, a.ring[a.from:min(a.from+a.n, maxReadAhead)])
	if a.n == maxReadAhead {
		a.change.Signal() // the goroutine may be waiting for room
	}
	a.from, a.n = (a.from+n)%maxReadAhead, a.n-n
	if a.n == 0 {
		rings.Put(a.ring)
		a.ring, a.from = nil, 0
	}
	return n, nil
}

// start starts the goroutine, once. The caller holds the lock.
func (a *readAhead) start() {
	if !a.started && !a.stopped {
		a.started = true
		go a.run()
	}
}

// wait blocks until there are bytes to read, an error, or stop. The caller holds the lock.
func (a *readAhead) wait() {
	if a.before != nil && a.n == 0 && a.err == nil && !a.stopped {
		a.callBefore()
	}
	for a.n == 0 && a.err == nil && !a.stopped {
		a.change.Wait()
	}
}

// callBefore calls before without the lock. The lock is held again afterwards, also when before
// panics or ends the goroutine: callers unlock it then.
func (a *readAhead) callBefore() {
	a.mu.Unlock()
	defer a.mu.Lock()
	a.before()
}

// run reads the body until its end, an error, or stop.
func (a *readAhead) run() {
	buf := make([]byte, minReadBuffer)
	for more := true; more; {
		n, err := a.src.Read(buf)
		if more = a.take(buf[:n], err); more && n == len(buf) {
			more = a.burst()
		}
	}
}

// burst reads the body while each Read fills a larger buffer. It returns what take does.
func (a *readAhead) burst() bool {
	buf := bursts.Get().(*[burstReadBuffer]byte)
	defer bursts.Put(buf)
	for {
		n, err := a.src.Read(buf[:])
		if more := a.take(buf[:n], err); !more || n < len(buf) {
			return more
		}
	}
}

// take puts the result of one Read into the ring, and blocks while the ring is full. It returns
// false when there is nothing more to read.
func (a *readAhead) take(p []byte, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(p) > 0 && !a.stopped {
		if a.n == maxReadAhead {
			a.change.Wait()
			continue
		}
		if a.n == 0 {
			a.change.Signal()
		}
		if a.ring == nil {
			a.ring = rings.Get().(*[maxReadAhead]byte)
		}
		to := (a.from + a.n) % maxReadAhead
		n := copy(a.ring[to:min(maxReadAhead, to+maxReadAhead-a.n)], p)
		a.n, p = a.n+n, p[n:]
	}
	if a.err = err; err != nil {
		a.change.Broadcast()
	}
	return err == nil && !a.stopped
}

// stop makes the goroutine end after its current Read. The caller closes the body, so that this
// Read returns.
func (a *readAhead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.change.Broadcast()
}
