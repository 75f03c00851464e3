package store

import (
	"runtime"
	"sync"
)

const (
	// The goroutines take parts. One goroutine decodes a whole part, because neighbouring objects are
	// similar, and similar objects decode faster one after another. A part ends at partObjects
	// objects, or with the object that reaches partBytes.
	partObjects = 32
	partBytes   = 256 << 10
	// maxDecoders bounds the goroutines. Additional ones would only wait for the goroutine that uses
	// the decoded values.
	maxDecoders = 8
)

// decodeEach calls use with each of the objects and the result of its decodeOnce. It makes all
// calls one after another, on the caller's goroutine, in no particular order. If there are many
// objects, other goroutines decode them. Each of these goroutines has at most two decoded parts
// that the caller has not used yet: one in the channel, and one that it is about to send. All of
// them have ended when decodeEach returns.
func decodeEach(objects []*Object, use func(o *Object, decoded any, err error)) {
	if len(objects) < 2*partObjects {
		for _, o := range objects {
			value, err := o.decodeOnce()
			use(o, value, err)
		}
		return
	}
	n := min(runtime.GOMAXPROCS(0), maxDecoders)
	p, done, ready := &parts{rest: objects}, make(chan struct{}), make(chan []decodedObject, n)
	var decoders sync.WaitGroup // they end when no part is left, or when done is closed
	defer decoders.Wait()
	defer close(done)
	for range n {
		decoders.Go(func() { p.decode(ready, done) })
	}
	for left := len(objects); left > 0; {
		decoded := <-ready
		for i := range decoded {
			d := &decoded[i]
			if !d.returned {
				d.value, d.err = d.decodeOnce() // on the caller's goroutine, so that the caller sees the panic
			}
			use(d.Object, d.value, d.err)
		}
		left -= len(decoded)
	}
}

// parts holds the objects that are not decoded yet.
type parts struct {
	mu   sync.Mutex
	rest []*Object
}

// next returns the next part, or none if no object is left.
func (p *parts) next() []*Object {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(p.rest), partObjects) && bytes < partBytes {
		bytes += p.rest[n].Size()
		n++
	}
	part := p.rest[:n]
	p.rest = p.rest[n:]
	return part
}

type decodedObject struct {
	*Object
	value    any
	err      error
	returned bool // false: the decoder panicked or ended the goroutine
}

// decode decodes parts until none is left.
func (p *parts) decode(ready chan<- []decodedObject, done <-chan struct{}) {
	for p.decodeNext(ready, done) {
	}
}

// decodeNext decodes one part. It returns false if no part is left, or done is closed. It sends the
// part even if Config.Decode ends this goroutine, because decodeEach waits for the part.
func (p *parts) decodeNext(ready chan<- []decodedObject, done <-chan struct{}) (more bool) {
	part := p.next()
	if len(part) == 0 {
		return false
	}
	decoded := make([]decodedObject, len(part))
	for i, o := range part {
		decoded[i].Object = o
	}
	defer func() {
		select {
		case ready <- decoded:
			more = true
		case <-done:
		}
	}()
	for i := range decoded {
		decoded[i].decodeSafely()
	}
	return false
}

// decodeSafely calls decodeOnce. If that panics, decodeSafely recovers and leaves returned false.
func (d *decodedObject) decodeSafely() {
	defer func() {
		if !d.returned {
			_ = recover()
		}
	}()
	d.value, d.err = d.decodeOnce()
	d.returned = true
}
