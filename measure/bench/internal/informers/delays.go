package informers

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// delays measures the time from the receipt of a change until the last of several handlers has
// received it. It assumes that the k-th event of a watch is the k-th event of each handler. If an
// informer merges events, the k-th event of a handler may contain a later change than the k-th.
// Then some measured delays are too long, but none is too short.
type delays struct {
	handlers int32
	armed    atomic.Bool // changes are measured

	mu      sync.Mutex
	arrived []time.Time // for each change, when its last byte was read

	told []atomic.Int32 // for each change, the number of handlers that have received it
	last []atomic.Int64 // for each change, when the last handler got it, in nanoseconds since base
	base time.Time
}

// newDelays returns delays for the given number of handlers. It measures at most the given number
// of changes.
func newDelays(handlers int32, changes int) *delays {
	return &delays{handlers: handlers, told: make([]atomic.Int32, changes), last: make([]atomic.Int64, changes), base: time.Now()}
}

// handler returns a handler that calls the handler next and then records the event.
func (d *delays) handler(next handler) handler {
	n := 0
	return func(kind eventKind, key string) {
		next(kind, key)
		if !d.armed.Load() {
			return
		}
		if n < len(d.told) && d.told[n].Add(1) == d.handlers {
			d.last[n].Store(int64(time.Since(d.base)))
		}
		n++
	}
}

// arrive records that an event has been read.
func (d *delays) arrive() {
	if !d.armed.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.arrived) < len(d.told) {
		d.arrived = append(d.arrived, time.Now())
	}
}

var errNoDelay = errors.New("no change has reached all handlers")

// p99 returns the 99th percentile of the delays, in seconds. It ignores changes that did not reach
// all handlers. If no change reached all handlers, the error is errNoDelay.
func (d *delays) p99() (float64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []time.Duration
	for i, at := range d.arrived {
		if last := d.last[i].Load(); last > 0 {
			all = append(all, max(0, time.Duration(last)-at.Sub(d.base)))
		}
	}
	if len(all) == 0 {
		return 0, errNoDelay
	}
	slices.Sort(all)
	return all[(len(all)*99)/100].Seconds(), nil
}

// framed reads a watch in protobuf. It calls arrive for each event whose last byte it has read. An
// event starts with its length, in four bytes.
type framed struct {
	io.ReadCloser
	arrive func()
	size   [4]byte
	have   int    // how many bytes of size were read
	left   uint32 // how many bytes of the event are left
}

func (f *framed) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.pass(p[:n])
	return n, err
}

func (f *framed) pass(b []byte) {
	for len(b) > 0 {
		if f.left == 0 {
			n := copy(f.size[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have < len(f.size) {
				return
			}
			f.have, f.left = 0, binary.BigEndian.Uint32(f.size[:])
			continue
		}
		n := min(uint32(len(b)), f.left)
		f.left, b = f.left-n, b[n:]
		if f.left == 0 {
			f.arrive()
		}
	}
}
