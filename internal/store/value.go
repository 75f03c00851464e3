package store

import "github.com/weirproject/weir/internal/wire"

// PutValue puts an object whose value cannot, or should not, be packed. The value is held as it is,
// strongly, for as long as its version is. Object.Decoded returns it. m is its metadata. received
// is as in PutAs.
//
// Such an object has no raw bytes. Size is 0, AppendRaw appends nothing, Labels are those of m, and
// Annotation and so on find nothing. An index by field finds nothing in it, and one by label what m
// says. Memory does not know its size.
func (w *Writer) PutValue(m *wire.Meta, received []byte, value any) error {
	if err := w.check(m, nil); err != nil {
		return err
	}
	id := w.identity(m, received)
	held, at, came := w.compare(&id, nil)
	switch {
	case came == doubtful:
		w.doubt(w.newValue(m, &id, value, held))
		return nil
	case came != newer:
		return nil
	}
	o := w.newValue(m, &id, value, held)
	p := pending{key: o.key, expect: held, at: at, object: o}
	b := w.filling()
	b.indexAgain(w.s, &p)
	b.add(p)
	if b.full() {
		w.Flush()
	}
	return nil
}

// newValue returns a version whose decoded value the cache does not track, and so never lets go of.
func (w *Writer) newValue(m *wire.Meta, id *identity, value any, held *Object) *Object {
	o := w.newObject(m, id, nil, held)
	o.packed = string(id.uidText) + string(id.rvText)
	o.layout = &layout{cachedDecoder: w.s.decoder, isValue: true}
	for k, v := range m.Labels() {
		if o.layout.labels == nil {
			o.layout.labels = make(map[string]string)
		}
		o.layout.labels[string(k)] = string(v)
	}
	box := &decodedBox{value: value}
	d := newDecodedEntry(box, 0)
	d.strong.Store(box)
	o.decoded.Store(d)
	return o
}
