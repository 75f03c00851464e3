package store

import "github.com/weirproject/weir/internal/wire"

// PutValue is PutAs for a value that cannot be packed, or is not to be: it is held as it is,
// strongly, for as long as its version is, and Object.Decoded gives it. m is its metadata; an index
// by field finds nothing in it, one by label what m says. Such an object has no raw bytes: Size is
// 0, AppendRaw appends nothing, Labels are m's, and Annotation and so on find nothing. Memory does
// not know its size.
func (w *Writer) PutValue(m *wire.Meta, received []byte, value any) error {
	if err := w.check(m, nil); err != nil {
		return err
	}
	id := w.identity(m, received)
	held, came := w.compare(&id, nil)
	switch {
	case came == older && (w.replacing || held == nil):
		w.doubt(w.newValue(m, &id, value, held))
		return nil
	case came != newer:
		return nil
	}
	o := w.newValue(m, &id, value, held)
	p := pending{key: o.key, expect: held, object: o}
	b := w.filling()
	b.indexAgain(w.s, &p)
	b.add(p)
	if b.full() {
		w.Flush()
	}
	return nil
}

// newValue makes a version whose decoded form is not the cooler's to let go of.
func (w *Writer) newValue(m *wire.Meta, id *identity, value any, held *Object) *Object {
	o := w.newObject(m, id, nil, held)
	o.packed = string(id.uidText) + string(id.rvText)
	o.layout = &layout{shared: w.s.shared, isValue: true}
	for k, v := range m.Labels() {
		if o.layout.labels == nil {
			o.layout.labels = make(map[string]string)
		}
		o.layout.labels[string(k)] = string(v)
	}
	box := &decodedBox{value}
	d := newDecodedState(box, 0)
	d.strong.Store(box)
	o.decoded.Store(d)
	return o
}

// ByHand returns a writer beside the one that is registered for the scope, for what somebody
// changes by hand. It writes under that one's claim, so that the next replace takes back what its
// list does not have, or has in another version. It takes any version, and it counts neither for
// Synced nor for ResourceVersion. Unlike other writers it is not to be used for replaces.
func (s *Store) ByHand(sc Scope) *Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.several = true
	return &Writer{s: s, scope: sc, bit: 1 << (sc.Claim & 31), synced: true, byHand: true}
}
