package store

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirproject/weir/wire"
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

	// Of the writing goroutine.
	batch     *batch   // nil: nothing is buffered
	next      progress // takes effect with the batch
	advanced  bool     // there is a next
	replacing bool
	rebase    bool
	removed   bool
	hurried   time.Time // when a cursor was behind last while objects came fast
	key       []byte    // scratch
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
// many changes the cursors that are behind have read. Safe for concurrent use.
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
// A version that is held already (same uid and resourceVersion) changes
// nothing. Neither does one whose resourceVersion is lower, as an integer, than
// the one held, unless it comes in a replace that was begun with rebase. Both
// count as seen by the replace that runs.
//
// The error is ErrNoName, ErrOutOfScope, ErrTooLarge, ErrWriterRemoved, or that
// of reading an indexed field; the object is then not taken.
func (w *Writer) Put(m *wire.Meta, raw []byte) error {
	if err := w.check(m, raw); err != nil {
		return err
	}
	id := identityOf(m.UID, m.ResourceVersion)
	w.s.mu.RLock()
	held := w.held()
	known := held != nil && w.known(&id, held)
	w.s.mu.RUnlock()
	if known && (!w.rebase || w.sameBytes(held, raw)) {
		return nil
	}
	return w.put(m, &id, raw, held)
}

// known compares with the version held and, if that is to stay, marks it. Called
// with the read lock: then nobody replaces the object meanwhile.
func (w *Writer) known(id *identity, held *Object) bool {
	switch id.against(held) {
	case newer:
		return false
	case same:
		setBits(&held.puts, w.bit)
	case older:
		if w.rebase {
			return false
		}
	}
	setBits(&held.claims, w.bit)
	if w.replacing {
		setBits(&held.marks, w.bit)
	}
	return true
}

// sameBytes reports whether held has these bytes: a server that was set back may
// have given the same resourceVersion a second time.
func (w *Writer) sameBytes(held *Object, raw []byte) bool {
	same := false
	err := held.withRaw(func(was []byte) error {
		same = string(was) == string(raw)
		return nil
	})
	return err == nil && same
}

// put adds an object to the batch, which packs it when it is flushed.
func (w *Writer) put(m *wire.Meta, id *identity, raw []byte, held *Object) error {
	p := pending{expect: held}
	b := w.filling()
	if err := b.index(w.s, &p, m, raw); err != nil {
		b.drop(&p)
		return fmt.Errorf("store: index %s: %w", w.key, err)
	}
	o := &Object{
		uid: id.uid, rv: id.rv,
		size: uint32(len(raw)), nsLen: uint16(len(m.Namespace)),
		indexed: p.hash, indexedWith: b.natives.number,
	}
	if id.oddUID {
		o.flags |= flagOddUID
	}
	if id.oddRV {
		o.flags |= flagOddRV
	}
	if held != nil {
		o.key = held.key
	} else {
		o.key = string(w.key)
	}
	p.key, p.object = o.key, o
	b.stage.add(w.s.gens, o, raw, m.UID, id)
	b.add(p)
	if b.full() {
		w.Flush()
	}
	return nil
}

// Delete takes a DELETED event: m is that of its object, whose resourceVersion
// is the deletion's. The writer's claim on the object ends, and the object goes
// if no other writer has one. Ignored if a version is held that this writer has
// put and whose resourceVersion is higher as an integer. Buffered like Put; same
// errors.
func (w *Writer) Delete(m *wire.Meta, raw []byte) error {
	if err := w.check(m, raw); err != nil {
		return err
	}
	id := identityOf(m.UID, m.ResourceVersion)
	w.s.mu.RLock()
	held := w.held()
	stale := held == nil || held.claims.Load()&w.bit == 0 || w.stale(&id, held)
	w.s.mu.RUnlock()
	if !stale {
		p := pending{key: held.key, expect: held}
		if !id.oddRV {
			p.end = id.rv
		}
		w.release(p)
	}
	return nil
}

func (w *Writer) stale(id *identity, held *Object) bool {
	if w.rebase || held.puts.Load()&w.bit == 0 {
		return false
	}
	if id.oddRV || held.flags&flagOddRV != 0 {
		return !id.sameUID(held) // not to be compared: at least the same object
	}
	return id.rv < held.rv
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

// setBits adds bits without dirtying memory that has them.
func setBits(to *atomic.Uint32, bits uint32) {
	if to.Load()&bits != bits {
		to.Or(bits)
	}
}
