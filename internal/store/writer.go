package store

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/weirproject/weir/internal/wire"
)

// Scope is what one writer answers for. Scopes of one store's writers must not
// overlap in both: two writers with the same claim need different namespaces.
type Scope struct {
	// Namespace, "" for all.
	Namespace string
	// Claim, 0 to 31 (higher bits are ignored): which selector of an informer
	// that is merged from several. An object is held while any claim holds it.
	Claim uint8
}

// Writer puts one source's objects into the store. It buffers a batch of
// bounded size and applies it under one short lock; Flush applies what is there.
// Not safe for concurrent use; several writers may work at the same time.
type Writer struct {
	s     *Store
	scope Scope
	bit   uint32 // of the claim

	// Guarded by the store's lock.
	synced   bool
	progress progress
	// ahead has, by key, the version that the writer was told last where that is above its progress
	// and is not the one held: in a list that has not ended, or broke off. Bounded by the keys that
	// other writers have put since.
	ahead map[string]uint64
	era   uint32  // of the store when what its last BeginReplace began with was asked for
	asked *uint32 // of the store at Asks, for the next BeginReplace; nil: that asks itself
	// outdated is called once when era is not the store's any more; nil: by nobody.
	outdated func()

	// Of the writing goroutine.
	batch     *batch   // nil: nothing is buffered
	next      progress // takes effect with the batch
	advanced  bool     // there is a next
	replacing bool
	ended     bool   // a replace has
	replaces  uint32 // how many there were
	goingBack bool   // a replace was begun with rebase, and nothing was told since
	byHand    bool   // see ByHand
	removed   bool
	doubts    map[string]*Object // see doubt; bounded by the keys of a list that other writers have put newer
	ending    progress           // that those of the doubts that are in the batch were right at
	fastSince time.Time          // when a cursor was behind last while objects came fast
	key       []byte             // scratch
	made      *Object            // see Made
}

const (
	// A batch is flushed at so many changes, or bytes.
	batchChanges = 128
	batchBytes   = 256 << 10
	// sweepKeys is how many keys are looked at under one read lock.
	sweepKeys = 1024
)

// Writer returns a new writer for sc. The store is not Synced until the writer
// has ended its first replace.
func (s *Store) Writer(sc Scope) *Writer {
	w := &Writer{s: s, scope: sc, bit: 1 << (sc.Claim & 31)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.several = s.several || len(s.writers) > 0 || s.table.count > 0
	s.writers[w] = struct{}{}
	s.log.setSynced(false)
	return w
}

// Behind reports whether a cursor that is being read does not keep up: it has a
// thousand changes to see. It is said to be behind until it has half as many. One
// that has not been read for a second is blocked, and does not count. read is how
// many changes the cursors that are behind have read, in the mean. Safe for concurrent use.
func (w *Writer) Behind() (behind bool, read uint64) { return w.s.log.isBehind() }

// check reads the key of an incoming object into w.key.
func (w *Writer) check(m *wire.Meta, raw []byte) error {
	switch {
	case w.removed:
		return ErrWriterRemoved
	case w.s.closed.Load():
		return ErrClosed
	case len(m.Name) == 0:
		return ErrNoName
	case len(m.Namespace) > math.MaxUint16 || len(m.Name) > math.MaxUint16:
		return fmt.Errorf("name of %d and namespace of %d bytes: %w", len(m.Name), len(m.Namespace), ErrTooLarge)
	case int64(len(raw)) > math.MaxUint32:
		return fmt.Errorf("object of %d bytes: %w", len(raw), ErrTooLarge)
	case w.scope.Namespace != "" && string(m.Namespace) != w.scope.Namespace:
		return fmt.Errorf("%s/%s is not in %s: %w", m.Namespace, m.Name, w.scope.Namespace, ErrOutOfScope)
	}
	w.goingBack, w.made = false, nil
	w.key = wire.AppendKey(w.key[:0], m)
	if w.batch.has(w.key) {
		w.Flush() // one change of a key per batch
	}
	return nil
}

// held looks the current key up. The string is only compared.
func (w *Writer) held() *Object {
	o, _ := w.s.table.get(unsafe.String(unsafe.SliceData(w.key), len(w.key)))
	return o
}

// Put takes an object in, from a LIST or an ADDED or MODIFIED event. m and raw
// may be reused after return; the change is buffered until Flush, or until the
// batch is full.
//
// What is held already changes nothing: the same uid, resourceVersion and bytes
// (but for what Fingerprint does not count). Neither does one whose
// resourceVersion is lower, as an integer, than the one held, unless it comes in
// a replace: EndReplace says when that is right. Both count as seen by the
// replace that runs. Where the bytes alone differ, by a relist or by an event
// that comes again, the object is put: cursors see a change from the
// resourceVersion to itself.
//
// The error is ErrNoName, ErrOutOfScope, ErrTooLarge, ErrWriterRemoved, or that
// of reading an indexed field; the object is then not taken.
func (w *Writer) Put(m *wire.Meta, raw []byte) error { return w.PutAs(m, raw, raw) }

// PutAs is Put for an object that is not held as it was received. What comes
// again is compared with what was received; with nil only the versions are.
func (w *Writer) PutAs(m *wire.Meta, received, raw []byte) error {
	if err := w.check(m, raw); err != nil {
		return err
	}
	id := w.identity(m, received)
	id.made = len(received) != len(raw) || unsafe.SliceData(received) != unsafe.SliceData(raw)
	held, came := w.compare(&id, received)
	switch {
	case came == newer:
		return w.put(m, &id, raw, held)
	case came == older && (w.replacing || held == nil):
		w.putDoubt(m, &id, raw, held)
	}
	return nil
}

// Known reports whether Put of what was received would change nothing, and does
// it then. It is for those who have work to do before they put what is news. The
// error is as Put's.
func (w *Writer) Known(m *wire.Meta, received []byte) (bool, error) {
	if err := w.check(m, received); err != nil {
		return false, err
	}
	id := w.identity(m, received)
	_, came := w.compare(&id, received)
	return came == same || came == older && !w.replacing, nil
}

func (w *Writer) identity(m *wire.Meta, received []byte) identity {
	id := identityOf(m.UID, m.ResourceVersion)
	if len(received) > 0 {
		id.sum = wire.Fingerprint(w.s.shared.encoding, received)
	}
	return id
}

// compare settles what becomes of the incoming version with the current key. same: nothing.
func (w *Writer) compare(id *identity, received []byte) (held *Object, came order) {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.outdatedLocked() {
		return nil, same
	}
	delete(w.doubts, string(w.key)) // this is later news
	if held = w.held(); held == nil {
		if w.s.deletions.outdates(w, string(w.key), id.rv, id.oddUID || id.oddRV) {
			return nil, older
		}
		return nil, newer
	}
	if id.against(held) == same && id.sum != held.sum && w.sameContent(held, received) {
		id.sum = held.sum
	}
	return held, w.settle(id, held)
}

// sameContent reports whether what was received is what is held, though its fingerprint is another:
// the members of a JSON object may come in another order from another server.
func (w *Writer) sameContent(held *Object, received []byte) (same bool) {
	enc := w.s.shared.encoding
	if enc != wire.JSON || len(received) == 0 || held.size == 0 || held.sum == 0 || held.flags&flagMade != 0 {
		return false
	}
	_ = held.withRaw(func(raw []byte) error {
		same = wire.Same(enc, raw, received)
		return nil
	})
	return same
}

// put adds an object to the batch, which packs it when it is flushed.
func (w *Writer) put(m *wire.Meta, id *identity, raw []byte, held *Object) error {
	p := pending{expect: held}
	b := w.filling()
	if err := b.index(w.s, &p, m, raw); err != nil {
		b.drop(&p)
		return fmt.Errorf("store: index %s: %w", w.key, err)
	}
	o := w.newObject(m, id, raw, held)
	o.indexed = p.hash
	p.key, p.object = o.key, o
	b.queue.add(w.s, o, raw, m.UID, id)
	b.add(p)
	if b.full() {
		w.Flush()
	}
	return nil
}

// newObject makes a version that is yet to be packed.
func (w *Writer) newObject(m *wire.Meta, id *identity, raw []byte, held *Object) *Object {
	o := &Object{uid: id.uid, rv: id.rv, sum: id.sum, size: uint32(len(raw)), nsLen: uint16(len(m.Namespace))}
	if id.oddUID {
		o.flags |= flagOddUID
	}
	if id.oddRV {
		o.flags |= flagOddRV
	}
	if id.made {
		o.flags |= flagMade
	}
	if w.byHand {
		o.flags |= flagByHand
	}
	if held != nil {
		o.key = held.key
	} else {
		o.key = string(w.key)
	}
	w.made = o
	return o
}

// Made returns the version that the last Put, PutAs or PutValue made, which the table may come to
// hold; nil if it was no news. It is for those who have the decoded form at hand.
func (w *Writer) Made() *Object { return w.made }

// putDoubt keeps a version of a list that is older than the one held. It packs it at once: that is
// rare.
func (w *Writer) putDoubt(m *wire.Meta, id *identity, raw []byte, held *Object) {
	o := w.newObject(m, id, raw, held)
	body := o.cutUID(nil, raw, m.UID)
	packed, layout := w.s.pack(nil, body, false)
	o.packed, o.layout = string(append(append(packed, id.uidText...), id.rvText...)), layout
	w.doubt(o)
}

// Delete takes a DELETED event: m is that of its object, whose resourceVersion
// is the deletion's. The writer's claim on the object ends, and the object goes
// if no other writer has one. Ignored if this writer was told of a version whose
// resourceVersion is higher as an integer: the event is an old one. Buffered
// like Put; same errors.
func (w *Writer) Delete(m *wire.Meta, raw []byte) error { return w.end(m, raw, false) }

// DeleteNamesake takes an object that is not put, and ends this writer's claim on
// what is held under its name: that was another object, whose end nobody has told
// of. Cursors see that it was Missed. All else is as Delete's, m and raw being the
// new object's.
func (w *Writer) DeleteNamesake(m *wire.Meta, raw []byte) error { return w.end(m, raw, true) }

func (w *Writer) end(m *wire.Meta, raw []byte, missed bool) error {
	if err := w.check(m, raw); err != nil {
		return err
	}
	id := identityOf(m.UID, m.ResourceVersion)
	w.s.mu.RLock()
	held := w.held()
	stale := held == nil || w.outdatedLocked() || held.claims.Load()&w.bit == 0 || w.stale(&id, held)
	if doubt := w.doubts[string(w.key)]; doubt != nil && (id.oddRV || id.rv >= doubt.rv) { // this is later news
		delete(w.doubts, doubt.key)
		if held != nil && w.replacing { // the list, as of its end, does not have it
			held.marks.And(^w.bit)
		}
	}
	w.s.mu.RUnlock()
	if !stale {
		p := pending{key: held.key, expect: held, missed: missed}
		if !id.oddRV {
			p.end = id.rv
		}
		w.release(p)
	}
	return nil
}

// release adds the end of this writer's claim on p.expect to the batch.
func (w *Writer) release(p pending) {
	b := w.filling()
	b.unindex(w.s, &p)
	b.add(p)
	if b.full() {
		w.Flush()
	}
}
