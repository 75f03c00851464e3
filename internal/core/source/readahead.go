package source

import (
	"io"
	"net"
	"sync"
)

// readAhead reads a body in a separate goroutine, so that bytes arrive while the reader decodes. It
// stores received bytes in a ring of maxReadAhead bytes until Read returns them. While the ring is
// full, the goroutine does not read, so flow control makes the server wait. The goroutine starts
// with the first Read or Wait. It ends at the end of the body, after an error, or after stop.
type readAhead struct {
	src    io.Reader         // used only by the goroutine
	before func()            // called before Read or Wait blocks; may be nil
	ended  func(error) error // returns the error of a Read after stop

	mu      sync.Mutex
	change  sync.Cond // signaled when a field below changes
	started bool
	ring    *[maxReadAhead]byte // taken from rings; nil while no bytes are unread
	from, n int                 // start and number of the unread bytes
	err     error               // returned when no bytes are unread
	stopped bool
}

// Sizes of a watch's buffers, in bytes. Most watches are idle most of the time, so between bursts
// of events a watch keeps only the small buffer.
const (
	minReadBuffer   = 2 << 10   // the goroutine's own read buffer
	burstReadBuffer = 16 << 10  // the goroutine's read buffer while bytes arrive fast
	maxReadAhead    = 256 << 10 // the ring, used only while there are unread bytes
)

// bursts contains read buffers, and rings contains rings. Watches share them: a watch uses one only
// during a burst of events.
var (
	bursts = sync.Pool{New: func() any { return new([burstReadBuffer]byte) }}
	rings  = sync.Pool{New: func() any { return new([maxReadAhead]byte) }}
)

func newReadAhead(src io.Reader, ended func(error) error) *readAhead {
	a := &readAhead{src: src, ended: ended}
	a.change.L = &a.mu
	return a
}

func (a *readAhead) Ready() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n > 0 || a.err != nil || a.stopped
}

func (a *readAhead) Wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start()
	a.wait()
}

// Read returns received bytes. It blocks only if no bytes are unread.
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
		a.change.Signal() // the goroutine may wait for room
	}
	a.from, a.n = (a.from+n)%maxReadAhead, a.n-n
	if a.n == 0 {
		rings.Put(a.ring)
		a.ring, a.from = nil, 0
	}
	return n, nil
}

// start starts the goroutine if it has not been started. The caller must hold a.mu.
func (a *readAhead) start() {
	if !a.started && !a.stopped {
		a.started = true
		go a.run()
	}
}

// wait blocks until there are bytes to read, an error, or a stop. The caller must hold a.mu.
func (a *readAhead) wait() {
	if a.before != nil && a.n == 0 && a.err == nil && !a.stopped {
		a.callBefore()
	}
	for a.n == 0 && a.err == nil && !a.stopped {
		a.change.Wait()
	}
}

// callBefore calls a.before without holding a.mu. It locks a.mu again even if a.before panics or
// calls runtime.Goexit, because the callers unlock it with defer.
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

// burst reads the body into a larger buffer while each Read fills that buffer. Like take, it
// returns false if the goroutine must end.
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

// take copies the result of one Read into the ring, and blocks while the ring is full. It returns
// false if the goroutine must end.
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

// stop makes the goroutine end after its current Read. The caller must then close the body, so that
// the Read returns.
func (a *readAhead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.change.Broadcast()
}
