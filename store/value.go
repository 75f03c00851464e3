package store

import "github.com/weirproject/weir/wire"

// PutValue is Put for a value that cannot be packed, or is not to be: it is held as it is, strongly, for as long as its
// version is, and Object.Decoded gives it. m is its metadata; an index by field finds nothing in it, one by label what m
// says. Such an object has no raw bytes: Size is 0, AppendRaw appends nothing, and Labels, Annotation and so on find
// nothing. Memory does not know its size.
func (w *Writer) PutValue(m *wire.Meta, value any) error {
	if err := w.check(m, nil); err != nil {
		return err
	}
	id := identityOf(m.UID, m.ResourceVersion)
	w.s.mu.RLock()
	held := w.held()
	known := held != nil && w.known(&id, held)
	w.s.mu.RUnlock()
	if known && !w.rebase {
		return nil
	}
	p := pending{expect: held}
	b := w.filling()
	if err := b.index(w.s, &p, m, nil); err != nil {
		b.drop(&p)
		p.hash, p.to = 0, p.from
	}
	o := newValue(w.s.kind, &id, value)
	o.nsLen, o.indexed, o.indexedWith = uint16(len(m.Namespace)), p.hash, b.natives.number
	if held != nil {
		o.key = held.key
	} else {
		o.key = string(w.key)
	}
	p.key, p.object = o.key, o
	b.add(p)
	if b.full() {
		w.Flush()
	}
	return nil
}

// newValue makes a version whose decoded form is not the cooler's to let go of.
func newValue(k *kind, id *identity, value any) *Object {
	o := &Object{gen: &generation{kind: k}, packed: string(id.uidText) + string(id.rvText), uid: id.uid, rv: id.rv}
	if id.oddUID {
		o.flags |= flagOddUID
	}
	if id.oddRV {
		o.flags |= flagOddRV
	}
	box := &decodedBox{value}
	d := newDecodedState(box, 0)
	d.strong.Store(box)
	o.decoded.Store(d)
	return o
}

// ByHand returns a writer beside the one that is registered for the scope, for what somebody changes by hand. It writes
// under that one's claim, so that the next replace takes back what its list does not have. It takes any version, and it
// counts neither for Synced nor for ResourceVersion. Unlike other writers it is not to be used for replaces.
func (s *Store) ByHand(sc Scope) *Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.several = true
	return &Writer{s: s, scope: sc, bit: 1 << (sc.Claim & 31), synced: true, rebase: true}
}
