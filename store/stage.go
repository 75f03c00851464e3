package store

import (
	"sync"
	"unsafe"
)

// staged is an object's bytes in a batch's raws, and the odd texts behind them.
type staged struct{ from, odd, to int }

// packApart is how many objects are worth a second goroutine to pack them.
const packApart = 8

// stages holds raws from one batch to the next, while there are any.
var stages sync.Pool // of *[]byte

// stage keeps an object's bytes until the batch is packed.
func (b *batch) stage(p *pending, raw []byte, id *identity) {
	if b.raws == nil {
		if kept, ok := stages.Get().(*[]byte); ok {
			b.raws = *kept
		}
	}
	p.unpacked = true
	p.raw.from = len(b.raws)
	b.raws = append(b.raws, raw...)
	p.raw.odd = len(b.raws)
	b.raws = append(append(b.raws, id.uidText...), id.rvText...)
	p.raw.to = len(b.raws)
}

// pack packs what is staged: half of it in a goroutine that ends before pack
// does, since packing is most of the work of taking objects in.
func (b *batch) pack(gs *generations) {
	mine, others := b.list, b.list[len(b.list):]
	if len(b.list) >= packApart {
		mine, others = b.list[:len(b.list)/2], b.list[len(b.list)/2:]
	}
	var second sync.WaitGroup
	if len(others) > 0 {
		second.Go(func() { b.packs[1] = b.packSome(gs, b.packs[1], others) })
	}
	b.packs[0] = b.packSome(gs, b.packs[0], mine)
	second.Wait()
	for i := range b.list {
		p := &b.list[i]
		if !p.unpacked {
			continue
		}
		p.unpacked = false
		raw := b.raws[p.raw.from:p.raw.odd]
		if gs.observe(p.object.gen, raw, len(p.object.packed)-(p.raw.to-p.raw.odd)) {
			b.repack(gs)
		}
	}
	if cap(b.raws) > 0 && cap(b.raws) <= 2*batchBytes {
		raws := b.raws[:0]
		stages.Put(&raws)
	}
	b.raws = nil
}

// packSome packs the staged ones of a part of the batch. It returns the scratch.
func (b *batch) packSome(gs *generations, scratch []byte, list []pending) []byte {
	for i := range list {
		if p := &list[i]; p.unpacked {
			var gen *generation
			scratch, gen = gs.pack(scratch[:0], b.raws[p.raw.from:p.raw.odd])
			scratch = append(scratch, b.raws[p.raw.odd:p.raw.to]...)
			p.object.packed, p.object.gen = string(scratch), gen
		}
	}
	if cap(scratch) > maxScratch {
		return nil
	}
	return scratch
}

// repack packs what is held as it came, because there was no dictionary yet.
func (b *batch) repack(gs *generations) {
	for i := range b.list {
		o := b.list[i].object
		if o == nil || o.size == 0 || o.gen.packer != nil {
			continue
		}
		body, uid, rv := o.tail()
		var packed []byte
		packed, o.gen = gs.pack(nil, unsafe.Slice(unsafe.StringData(body), len(body)))
		o.packed = string(packed) + uid + rv
	}
}
