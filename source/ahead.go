package source

import (
	"io"
	"net"
	"sync"
)

// ahead reads a body in a goroutine of its own: receiving and decrypting it go on while what has come is taken
// apart. What is held is one ring, a large one while what comes does not fit; when that is full the goroutine waits, and so does
// the server. Time in which the server sends nothing counts as such while there is room for it. The goroutine begins with
// the first Read and ends with the body, an error, or stop.
type ahead struct {
	src    io.Reader         // used by the goroutine alone
	before func()            // called before a Read that has to wait, or nil
	ended  func(error) error // the error of a Read after stop

	mu      sync.Mutex
	change  sync.Cond // of anything below
	ring    []byte    // nil until the first Read
	small   []byte    // the ring, while there is a large one
	lent    *[]byte   // the large ring, or nil
	from, n int       // where what has come begins, and how much it is
	err     error     // after that
	stopped bool
}

// The sizes of rings, in bytes: watches are many, and idle for the most part, but bursts of events come all at once.
const (
	aheadLeast = 16 << 10
	aheadMost  = 256 << 10
)

func newAhead(src io.Reader, ended func(error) error) *ahead {
	a := &ahead{src: src, ended: ended}
	a.change.L = &a.mu
	return a
}

// Read returns what has come, and waits only for the first byte.
func (a *ahead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ring == nil && !a.stopped {
		a.ring = make([]byte, aheadLeast)
		go a.run()
	}
	a.wait()
	switch {
	case a.stopped:
		return 0, a.ended(net.ErrClosed)
	case a.n == 0:
		return 0, a.err
	}
	n := copy(p, a.ring[a.from:min(a.from+a.n, len(a.ring))])
	if a.n == len(a.ring) {
		a.change.Signal() // the goroutine may be waiting for room
	}
	a.from, a.n = (a.from+n)%len(a.ring), a.n-n
	return n, nil
}

// wait waits for something to come.
func (a *ahead) wait() {
	if a.before != nil && a.n == 0 && a.err == nil && !a.stopped {
		a.mu.Unlock()
		a.before()
		a.mu.Lock()
	}
	for a.n == 0 && a.err == nil && !a.stopped {
		a.change.Wait()
	}
}

// run fills the ring.
func (a *ahead) run() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.err == nil && !a.stopped {
		switch {
		case a.n == 0:
			a.shrink()
		case a.n == len(a.ring) && a.n < aheadMost:
			a.grow()
		case a.n == len(a.ring):
			a.change.Wait()
			continue
		}
		to := (a.from + a.n) % len(a.ring)
		room := a.ring[to:min(len(a.ring), to+len(a.ring)-a.n)]
		a.mu.Unlock()
		n, err := a.src.Read(room)
		a.mu.Lock()
		if a.n == 0 {
			a.change.Signal()
		}
		a.n, a.err = a.n+n, err
	}
	a.change.Broadcast()
}

// large holds rings of aheadMost bytes from one burst to the next.
var large = sync.Pool{New: func() any { b := make([]byte, aheadMost); return &b }}

// grow puts what a full ring holds into a large one.
func (a *ahead) grow() {
	a.lent = large.Get().(*[]byte)
	ring := *a.lent
	copy(ring[copy(ring, a.ring[a.from:]):], a.ring[:a.from])
	a.small, a.ring, a.from = a.ring, ring, 0
}

// shrink gives a large ring back when it is empty: most of the time a watch is idle.
func (a *ahead) shrink() {
	if a.lent != nil {
		large.Put(a.lent)
		a.lent, a.ring = nil, a.small
	}
	a.from = 0
}

// stop ends the goroutine once its Read returns, which closing the body is for.
func (a *ahead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	a.change.Broadcast()
}
