package store

import (
	"runtime"
	"sync"
)

const (
	// A part is decoded by one goroutine at a time, because neighbours are alike and decode faster
	// one after another. It ends at partObjects objects, or with the object that reaches partBytes.
	partObjects = 32
	partBytes   = 256 << 10
	// maxDecoders bounds the goroutines. More would wait for the one that uses what they have
	// decoded.
	maxDecoders = 8
)

// decodeEach calls use with each of the objects and what its DecodeOnce returns. The calls come one
// after another, on the caller's goroutine, in no order. Meanwhile other goroutines decode ahead:
// each has at most one part decoded, and one in the channel. They have ended when decodeEach
// returns.
func decodeEach(objects []*Object, use func(o *Object, decoded any, err error)) {
	p := &parts{rest: objects}
	var done chan struct{}
	var ready chan []decodedObject
	if n := min(runtime.GOMAXPROCS(0), maxDecoders, 1+len(objects)/(2*partObjects)) - 1; n > 0 {
		done, ready = make(chan struct{}), make(chan []decodedObject, n)
		var decoders sync.WaitGroup // they end when nothing is left, or with done
		defer decoders.Wait()
		defer close(done)
		for range n {
			decoders.Go(func() { p.decode(ready, done) })
		}
	}
	for left := len(objects); left > 0; {
		var decoded []decodedObject
		select {
		case decoded = <-ready:
		default:
			mine := p.next()
			for _, o := range mine {
				value, err := o.DecodeOnce()
				use(o, value, err)
			}
			if left -= len(mine); len(mine) > 0 {
				continue
			}
			decoded = <-ready // the last ones are under way
		}
		for i := range decoded {
			d := &decoded[i]
			if !d.returned {
				d.value, d.err = d.DecodeOnce() // where the caller sees how it ends
			}
			use(d.Object, d.value, d.err)
		}
		left -= len(decoded)
	}
}

// parts holds the objects that are left to be decoded.
type parts struct {
	mu   sync.Mutex
	rest []*Object
}

// next takes a part. It returns none if nothing is left.
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
	returned bool // false: the decoder did not return
}

// decode decodes parts until nothing is left.
func (p *parts) decode(ready chan<- []decodedObject, done <-chan struct{}) {
	for p.decodeNext(ready, done) {
	}
}

// decodeNext decodes one part. It returns false if nothing is left, or done is closed. The
// goroutine that waits for the part gets it, even if a decoder ends this goroutine.
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

// decodeSafely calls DecodeOnce on a goroutine of decodeEach. It recovers from a panic, and leaves
// returned false.
func (d *decodedObject) decodeSafely() {
	defer func() {
		if !d.returned {
			_ = recover()
		}
	}()
	d.value, d.err = d.DecodeOnce()
	d.returned = true
}
