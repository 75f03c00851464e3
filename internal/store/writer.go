package store

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/weirproject/weir/internal/wire"
)

// Scope says which objects one writer answers for. The scopes of one store's writers must not
// overlap in both fields: two writers with the same claim need different namespaces.
type Scope struct {
	// Namespace is the namespace of the objects, or "" for all namespaces.
	Namespace string
	// Claim, 0 to 31 (higher bits are ignored), tells the selectors of an informer apart that is
	// merged from several. An object is held while any claim holds it.
	Claim uint8
}

// Writer puts one source's objects into the store. It buffers a batch of bounded size, and applies
// it under one short lock when it is full or Flush is called. A Writer is not safe for concurrent
// use, but for the methods that say so. Several writers may work at the same time.
type Writer struct {
	s     *Store
	scope Scope
	bit   uint32 // of the claim

	// Guarded by the store's lock.
	synced   bool
	progress progress
	// aboveProgress has, by key, the version that the writer was told last, where that is above its
	// progress and not the one held. Such versions are from a list that has not ended, or broke
	// off. It is bounded by the keys that other writers have put since.
	aboveProgress map[string]uint64
	era           uint32 // of the store when what its last BeginReplace began with was asked for
	// asked is the era of the store at ListRequested, for the next BeginReplace. nil: that asks
	// itself.
	asked    *uint32
	removing bool // what is left to do is to end its claims, whatever past they are from
	// outdated is called once when era is no longer that of the store. nil: nothing is called.
	outdated func()

	// Of the writing goroutine.
	batch     *batch   // nil: nothing is buffered
	newest    uint64   // the newest version, or end, that was told since BeginReplace
	next      progress // takes effect with the batch
	advanced  bool     // there is a next
	replacing bool
	listed    bool   // a replace has ended; while not synced, one of this era
	replaces  uint32 // how many there were
	goingBack bool   // a replace was begun with rebase, and nothing was told since
	manual    bool   // see ManualWriter
	coalesced uint64 // see Coalesced
	removed   bool
	// doubts are bounded by the keys that other writers have put newer, see Writer.doubt.
	doubts map[string]doubted
	// firstDoubts are what doubts were when a relist began before the writer was synced. They only
	// become fewer, and end with the relist.
	firstDoubts map[string]doubted
	// overruledAt is the progress at which the doubts that are in the batch were found right.
	overruledAt progress
	fastSince   time.Time // when a cursor was behind last while objects came fast
	cameFast    time.Time // when objects came fast last, but for a replace
	key         []byte    // scratch
	made        *Object   // see Made
}

const (
	// A batch is flushed when it has batchChanges changes, or batchBytes bytes.
	batchChanges = 128
	batchBytes   = 256 << 10
	// sweepKeys is how many keys a sweep visits under one read lock.
	sweepKeys = 1024
)

// Writer returns a new writer for sc. The store is not Synced until the writer has ended its first
// replace. Remove ends the writer.
func (s *Store) Writer(sc Scope) *Writer {
	w := &Writer{s: s, scope: sc, bit: 1 << (sc.Claim & 31)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.several = s.several || len(s.writers) > 0 || s.table.count > 0
	s.writers[w] = struct{}{}
	s.log.setSynced(false)
	return w
}

// ManualWriter returns a writer for objects that the caller puts or deletes, and not a server. It
// is beside the writer that is registered for the scope, and writes under that one's claim. So the
// next replace takes back what its list does not have, or has in another version. The writer takes
// any version, and counts neither for Synced nor for ResourceVersion. Do not use it for replaces.
func (s *Store) ManualWriter(sc Scope) *Writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.several = true
	return &Writer{s: s, scope: sc, bit: 1 << (sc.Claim & 31), synced: true, manual: true}
}

// Behind reports whether a cursor that is being read does not keep up. A cursor is behind when it
// has a thousand changes to see, and until it has half as many. One that has not been read for a
// second is blocked, and does not count; nor does that of Store.List. read is the mean number of
// changes that the cursors that are behind have read. Safe for concurrent use.
func (w *Writer) Behind() (behind bool, read uint64) { return w.s.log.isBehind() }

// check reads the key of an incoming object into w.key. It returns the error for which the object
// is refused.
func (w *Writer) check(m *wire.Meta, raw []byte) error {
	switch err := w.Err(); {
	case err != nil:
		return err
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

// held returns the version held under the current key and its place, or nil. The string is only
// compared.
func (w *Writer) held() (o *Object, at objectPlace) {
	o, at, _ = w.s.table.find(unsafe.String(unsafe.SliceData(w.key), len(w.key)))
	return o, at
}

// Put takes in an object from a LIST, or from an ADDED or MODIFIED event. m and raw may be reused
// after it returns. The change is buffered until Flush, or until the batch is full.
//
// An object changes nothing if it is held already: the same uid, resourceVersion and bytes, but for
// what Fingerprint does not count. Neither does one whose resourceVersion is lower, as an integer,
// than the one held, unless it comes in a replace: EndReplace says when it is right. Both count as
// seen by the replace that runs. Where only the bytes differ, by a relist or by an event that comes
// again, the object is put. Cursors then see a change from the resourceVersion to itself.
//
// The error is ErrNoName, ErrOutOfScope, ErrTooLarge, ErrWriterRemoved, ErrClosed, or that of
// reading an indexed field. The object is then not taken.
func (w *Writer) Put(m *wire.Meta, raw []byte) error { return w.PutAs(m, raw, raw) }

// PutAs puts an object that is not held as it was received, and raw is what to hold. An object that
// comes again is compared with what was received. If received is nil, only the versions are
// compared. The labels of m are those of raw. All else is as in Put.
func (w *Writer) PutAs(m *wire.Meta, received, raw []byte) error {
	if err := w.check(m, raw); err != nil {
		return err
	}
	id := w.identity(m, received)
	id.made = len(received) != len(raw) || unsafe.SliceData(received) != unsafe.SliceData(raw)
	held, at, came := w.compare(&id, received)
	switch {
	case came == newer:
		return w.put(m, &id, raw, held, at)
	case came == doubtful:
		w.putDoubt(m, &id, raw, held)
	}
	return nil
}

// Take puts the object of an ADDED or MODIFIED event, or of a list if t is 0, and deletes that of a
// DELETED event. It is for reflectors of sources of bytes, whose Sink a Writer is. The errors are
// those of Put.
func (w *Writer) Take(t wire.EventType, m *wire.Meta, raw []byte, _ any) error {
	if t == wire.Deleted {
		return w.Delete(m, raw)
	}
	return w.Put(m, raw)
}

// Coalesced notes that from now on the writer's source tells of one change for each key, up to
// resourceVersion, and of ends first. Such an end may have been at any version up to there. ""
// notes that the source tells of each change again.
func (w *Writer) Coalesced(resourceVersion string) {
	w.coalesced = progressOf(resourceVersion).rv
}

// Err returns ErrWriterRemoved or ErrClosed once nothing can be written any more, and nil before.
func (w *Writer) Err() error {
	switch {
	case w.removed:
		return ErrWriterRemoved
	case w.s.closed.Load():
		return ErrClosed
	}
	return nil
}

// Unchanged reports whether a Put of what was received would change nothing. If so, it notes what
// that Put would note. It is for callers that have work to do before they put what is news. The
// errors are those of Put.
func (w *Writer) Unchanged(m *wire.Meta, received []byte) (bool, error) {
	if err := w.check(m, received); err != nil {
		return false, err
	}
	id := w.identity(m, received)
	_, _, came := w.compare(&id, received)
	return came == same || came == older, nil
}

func (w *Writer) identity(m *wire.Meta, received []byte) identity {
	id := identityOf(m.UID, m.ResourceVersion)
	if !id.opaqueRV {
		w.newest = max(w.newest, id.rv)
	}
	if len(received) > 0 {
		id.sum = wire.Fingerprint(w.s.decoder.encoding, received)
	}
	return id
}

// compare decides what becomes of the incoming version with the current key, and returns the
// version that is held, and its place. If came is same or older, nothing is to be done. If it is
// doubtful, the version is to be kept in doubt.
func (w *Writer) compare(id *identity, received []byte) (held *Object, at objectPlace, came order) {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.outdatedLocked() {
		return nil, at, same
	}
	delete(w.doubts, string(w.key)) // this is later news
	if held, at = w.held(); held == nil {
		if w.s.deletions.outdates(w, string(w.key), id.rv, id.opaqueUID || id.opaqueRV) {
			return nil, at, doubtful
		}
		delete(w.firstDoubts, string(w.key))
		return nil, at, newer
	}
	if id.against(held) == same && id.sum != held.sum && w.sameContent(held, received) {
		id.sum = held.sum
	}
	if came = w.claimUnlessNewer(id, held); came == older && w.contradicts(id, held) {
		came = doubtful
	} else {
		delete(w.firstDoubts, string(w.key))
	}
	return held, at, came
}

// sameContent reports whether what was received is what is held, though the fingerprints differ.
// Another server may send the members of a JSON object in another order.
func (w *Writer) sameContent(held *Object, received []byte) (same bool) {
	enc := w.s.decoder.encoding
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
func (w *Writer) put(m *wire.Meta, id *identity, raw []byte, held *Object, at objectPlace) error {
	p := pending{expect: held, at: at}
	b := w.filling()
	if err := b.index(w.s, &p, m, raw); err != nil {
		b.drop(&p)
		return fmt.Errorf("index %s: %w", w.key, err)
	}
	o := w.newObject(m, id, raw, held)
	o.indexed = p.hash
	p.key, p.object = o.key, o
	b.queue.add(w.s, o, held, raw, m.UID, id)
	b.add(p)
	if b.full() {
		w.Flush()
	}
	return nil
}

// newObject returns a version that is yet to be packed.
func (w *Writer) newObject(m *wire.Meta, id *identity, raw []byte, held *Object) *Object {
	o := &Object{uid: id.uid, rv: id.rv, sum: id.sum, size: uint32(len(raw)), nsLen: uint16(len(m.Namespace))}
	if id.opaqueUID {
		o.flags |= flagOpaqueUID
	}
	if id.opaqueRV {
		o.flags |= flagOpaqueRV
	}
	if id.made {
		o.flags |= flagMade
	}
	if w.manual {
		o.flags |= flagManual
	}
	if held != nil {
		o.key = held.key
	} else {
		o.key = string(w.key)
	}
	w.made = o
	return o
}

// Made returns the version that the last Put, PutAs or PutValue made, or nil if the object was no
// news. The table may come to hold it. Made is for callers that have the decoded value at hand.
func (w *Writer) Made() *Object { return w.made }

// putDoubt keeps a version of a list that is older than the one held. It packs the version at once,
// since that is rare.
func (w *Writer) putDoubt(m *wire.Meta, id *identity, raw []byte, held *Object) {
	o := w.newObject(m, id, raw, held)
	body := o.cutUID(nil, raw, m.UID)
	packed, layout := w.s.pack(nil, body, false)
	o.packed, o.layout = string(append(append(packed, id.uidText...), id.rvText...)), layout
	w.doubt(o)
}

// Delete takes a DELETED event. m is the metadata of its object; its resourceVersion is the
// deletion's. The writer's claim on the object ends, and the object goes if no other writer has a
// claim. Delete ignores the event if this writer was told of a version whose resourceVersion is
// higher as an integer: the event is an old one. Where a resourceVersion is missing the uid must be
// the same, unless that is missing too. It is buffered like Put. m and raw may be reused after it
// returns. The errors are those of Put.
func (w *Writer) Delete(m *wire.Meta, raw []byte) error { return w.takeDeletion(m, raw, false) }

// DeleteNamesake ends this writer's claim on what is held under the name of a new object that is
// not put. What is held was another object, of whose end nobody has told. Cursors see the end as
// Missed. m and raw are those of the new object. All else is as in Delete.
func (w *Writer) DeleteNamesake(m *wire.Meta, raw []byte) error { return w.takeDeletion(m, raw, true) }

func (w *Writer) takeDeletion(m *wire.Meta, raw []byte, missed bool) error {
	if err := w.check(m, raw); err != nil {
		return err
	}
	id := identityOf(m.UID, m.ResourceVersion)
	w.s.mu.RLock()
	held, _ := w.held()
	stale := held == nil || w.outdatedLocked() || held.claims.Load()&w.bit == 0 || w.stale(&id, held, missed)
	if in, ok := w.doubts[string(w.key)]; ok && (id.opaqueRV || id.rv >= in.rv) { // this is later news
		delete(w.doubts, in.key)
		if held != nil && w.replacing { // the list, as of its end, does not have it
			held.marks.And(^w.bit)
		}
	}
	if in, ok := w.firstDoubts[string(w.key)]; ok && (id.opaqueRV || id.rv >= in.rv) {
		delete(w.firstDoubts, in.key)
	}
	w.s.mu.RUnlock()
	late := false
	if !id.opaqueRV {
		late, w.newest = id.rv <= w.newest, max(w.newest, id.rv)
	}
	if !stale {
		p := pending{key: held.key, expect: held, missed: missed, late: late, coalesced: w.coalesced}
		if !id.opaqueRV {
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
