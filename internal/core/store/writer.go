package store

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/views"
	"github.com/weirproject/weir/internal/core/wire"
)

// Scope describes the objects for which one writer is responsible. Two writers of one store must
// differ in at least one field. Writers with the same owner must not have overlapping namespaces.
type Scope struct {
	// Namespace is the namespace of the objects, or "" for all namespaces.
	Namespace string
	// Owner, 0 to 31 (higher bits are ignored), distinguishes the selectors that an informer
	// merges. The store keeps an object as long as one owner has it.
	Owner uint8
}

// Writer puts one source's objects into the store. All writers of a store add changes to one batch
// of bounded size. The store applies the batch under one short lock when the batch is full, or when
// a writer calls Flush. A Writer is not safe for concurrent use, except for the methods that say
// so. Different writers may be used at the same time, because they lock Store.writing.
type Writer struct {
	s     *Store
	scope Scope
	bit   uint32 // the bit of the owner

	// Writers read these fields with Store.writing held, and change them with Store.mu held as
	// well.
	synced    bool
	progress  progress
	next      progress // becomes progress when the batch is applied
	advanced  bool     // next is set and not yet applied
	serverGen uint32   // the store's generation when the state of the last BeginReplace was requested
	removing  bool     // Remove is running; during that time the writer is not Outdated
	// outdated is called once, when the store's serverGen moves beyond this writer's. It may be
	// nil.
	outdated func()

	// Store.writing guards the fields below.

	// aboveProgress maps a key to the version that the source reported last. It contains only versions
	// that are above progress and are not in the table. Such versions come from a list that has not
	// ended or that broke off. The map has at most one entry for each key whose version another writer
	// has replaced.
	aboveProgress map[string]uint64
	// asked is the store's server generation when ListRequested was called, for the next BeginReplace.
	// If it is nil, BeginReplace uses the generation at the time of its call.
	asked *uint32
	// newest is the newest version that the source reported after BeginReplace, including deletions.
	newest    uint64
	replacing bool
	listed    bool   // a replace has ended; before synced, only one of this serverGen counts
	replaces  uint32 // the number of replaces that were started
	goingBack bool   // a replace started with rebase, and the source has reported nothing since
	manual    bool   // see ManualWriter
	coalesced uint64 // see Coalesced
	removed   bool
	// unconfirmed has at most one version for each key. Other writers have put a newer version of that
	// key, or have deleted it; see keepUnconfirmed.
	unconfirmed map[string]unconfirmedVersion
	// firstUnconfirmed is the value of unconfirmed when a relist started before the writer was synced.
	// AbortReplace restores it, without the keys that the relist reported. EndReplace clears it.
	firstUnconfirmed map[string]unconfirmedVersion
	relist           *relist      // nil if no replace is running or its changes are not staged
	inParts          atomic.Int64 // see InParts
	key              []byte       // of the current object
	// spare is the Object of an incoming version that was not put; the next version reuses it. It may
	// be nil.
	spare *Object
}

// progress is the resourceVersion that a writer is current to.
type progress struct {
	text      string
	rv        uint64
	ok        bool // text is an integer
	serverGen uint32
}

func progressOf(resourceVersion string) progress {
	rv, ok := resourceversion.ParseCanonical(resourceVersion)
	return progress{text: resourceVersion, rv: rv, ok: ok}
}

// Writer returns a new writer for sc. The store is not Synced until the writer has ended its first
// replace, which is its first list. Remove ends the writer.
func (s *Store) Writer(sc Scope) *Writer {
	w := &Writer{s: s, scope: sc, bit: 1 << (sc.Owner & 31)}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers[w] = struct{}{}
	s.log.setSynced(false)
	return w
}

// ManualWriter returns a writer for objects that the caller puts or deletes without a server. It
// exists in addition to the registered writer of the scope, and has the same owner. So the next
// replace of the registered writer deletes the objects that are not in its list. It also overwrites
// the objects of which the list has a different version. A manual writer accepts any version, and
// does not count for Synced or ResourceVersion. Do not use it for replaces.
func (s *Store) ManualWriter(sc Scope) *Writer {
	return &Writer{s: s, scope: sc, bit: 1 << (sc.Owner & 31), synced: true, manual: true}
}

// Behind reports whether at least one cursor is behind. A cursor is behind from the time at which
// it has about a thousand unread changes until it has half that number. A cursor that was not read
// for a second is blocked, and does not count. For the cursors that are behind, read is the mean
// number of changes that they have read. Behind is safe for concurrent use.
func (w *Writer) Behind() (behind bool, read uint64) { return w.s.log.isBehind() }

// Err returns ErrWriterRemoved or ErrClosed if the writer can no longer write, and nil otherwise.
func (w *Writer) Err() error {
	switch {
	case w.removed:
		return ErrWriterRemoved
	case w.s.closed.Load():
		return ErrClosed
	}
	return nil
}

// Put puts an object of a LIST, or of an ADDED or MODIFIED event, into the store. The caller may
// reuse m and raw after it returns. The change is buffered until Flush, or until the batch is full.
//
// Put changes nothing if the table already has the object: the same uid, resourceVersion and bytes,
// except for fields that Fingerprint does not count. It also ignores a resourceVersion that is
// lower, as an integer, than the one in the table. In a replace, EndReplace decides about such
// lower versions. In both cases, a running replace counts the object as seen. If uid and
// resourceVersion are the same but the bytes differ, in a relist or in a repeated event, Put
// changes the object. Then cursors return a change whose two versions have the same
// resourceVersion.
//
// In a replace after the writer's first one, Put and Delete do not change the table. EndReplace
// applies their changes, or the next Put if the changes exceed Config.LogBytes.
//
// The error is ErrNoName, ErrOutOfScope, ErrTooLarge, ErrWriterRemoved, ErrClosed, or an error from
// reading an indexed field. After an error the store does not have the object.
func (w *Writer) Put(m *wire.Meta, raw []byte) error { return w.PutAs(m, raw, raw, nil) }

// PutAs is like Put for an object that a program may have changed. received contains the bytes that
// the source has sent, and raw contains the bytes to store. To find out whether a later version is
// unchanged, the store compares it with received. If received is nil, the store compares only the
// resourceVersions. m has the labels of raw. value is the decoded value of raw, for Store.Values,
// or nil.
func (w *Writer) PutAs(m *wire.Meta, received, raw []byte, value any) error {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	o, held, came, err := w.receive(m, received, len(raw))
	if err != nil {
		return err
	}
	if len(received) != len(raw) || len(raw) > 0 && &received[0] != &raw[0] {
		o.flags |= flagMade
	}
	switch came {
	case newer:
		return w.put(m, o, held, raw, value)
	case conflicting: // this is rare, so packAlone packs o immediately, without a batch
		w.keep(o, held)
		w.s.packAlone(o, raw, m.UID)
		w.keepUnconfirmed(o)
	}
	return nil
}

// PutValue puts an object whose value cannot, or should not, be packed. The store keeps the value
// as long as it keeps the version, and Object.Decoded returns the value. m is the object's
// metadata. received is as in PutAs.
//
// Such an object has no raw bytes. Size returns 0, AppendRaw appends nothing, and Labels returns
// the labels of m. An index by field has no entry for it; an index by label has the labels of m.
// Memory does not include its size.
func (w *Writer) PutValue(m *wire.Meta, received []byte, value any) error {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	o, held, came, err := w.receive(m, received, 0)
	if err != nil || came != newer && came != conflicting {
		return err
	}
	w.keep(o, held)
	o.setValue(w.s.decoder, value, m)
	if came == conflicting {
		w.keepUnconfirmed(o)
		return nil
	}
	w.putPacked(held, o)
	w.s.flushFull()
	return nil
}

// Take puts the object of an ADDED or MODIFIED event or, if t is 0, of a list. It deletes the
// object of a DELETED event. With Take, a Writer implements the Sink of a reflector. The errors are
// those of Put.
func (w *Writer) Take(t wire.EventType, m *wire.Meta, raw []byte, _ any) error {
	if t == wire.Deleted {
		return w.Delete(m, raw)
	}
	return w.Put(m, raw)
}

// Unchanged reports whether a Put of the received bytes would change nothing. If so, Unchanged also
// records what Put would record, such as that the running replace has seen the object. Callers can
// use it to avoid the work of preparing an object for Put. The errors are those of Put.
func (w *Writer) Unchanged(m *wire.Meta, received []byte) (bool, error) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	_, _, came, err := w.receive(m, received, len(received))
	return err == nil && (came == same || came == older), err
}

// Delete applies a DELETED event. m is the metadata of the deleted object, with the resourceVersion
// of the deletion. Delete removes this writer's owner (see Scope) from the object, and deletes the
// object if that was its last owner. Delete ignores the event if the source has already reported a
// higher resourceVersion, compared as integers: then the event is a repetition. If one of the two
// resourceVersions is not an integer, Delete compares the uids instead. It ignores the event if
// they differ and the source has reported the version in the table. An event with neither a uid nor
// a resourceVersion is not ignored. The change is buffered as in Put. The caller may reuse m and
// raw after it returns. The errors are those of Put.
func (w *Writer) Delete(m *wire.Meta, raw []byte) error { return w.delete(m, raw, false, nil) }

// DeleteAs is like Delete, and also reports, as Change.Final, the state in which the object was
// deleted. The state is the bytes in final or, if value is not nil, the Go value in value. final is
// like raw of PutAs, and value is like value of PutValue. The log stores the state with the change.
// A cursor that falls behind the log does not receive it.
//
// If the table does not have the object, DeleteAs changes nothing, but the log records the event:
// as a change whose Old and Final are the state. It ignores the event during a replace, and if its
// resourceVersion is not above all that the source has reported. Do not use DeleteAs in a store
// with several writers: each of them would record the deletion.
func (w *Writer) DeleteAs(m *wire.Meta, final []byte, value any) error {
	return w.delete(m, final, false, func(o *Object) {
		if value != nil {
			o.setValue(w.s.decoder, value, m)
		} else {
			w.s.packAlone(o, final, m.UID)
		}
	})
}

// DeleteNamesake is called with a new object that the caller does not put. It deletes, like Delete,
// the old object that has the same name. The source has not reported the old object's deletion, so
// cursors receive it as Missed. m and raw belong to the new object.
func (w *Writer) DeleteNamesake(m *wire.Meta, raw []byte) error { return w.delete(m, raw, true, nil) }

// Coalesced records that from now on the source reports coalesced changes up to resourceVersion:
// one change for each key, and deletions first. The true version of such a deletion is unknown: it
// may be any version up to resourceVersion. "" records that from now on the source reports each
// single change.
func (w *Writer) Coalesced(resourceVersion string) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.coalesced = progressOf(resourceVersion).rv
}

// KeepHeld records that the source has an object that the caller cannot put, so that the running
// replace does not delete the version in the table. If no replace is running, KeepHeld is a no-op.
// It does not protect a version in the table that has the same name but another uid, because that
// is another object. If one of the two uids is missing, KeepHeld assumes that they are equal. m is
// the object's metadata, which the caller may reuse after KeepHeld returns.
func (w *Writer) KeepHeld(m *wire.Meta) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	if !w.replacing || w.check(m, 0) != nil {
		return
	}
	held := w.held()
	if held == nil || !held.ownedBy(w) || w.isOutdated() {
		return
	}
	if uid := held.UID(); uid == "" || len(m.UID) == 0 || uid == string(m.UID) {
		held.marks |= w.bit
	}
}

// Flush applies the batch under one lock, and wakes the cursors. It returns the number of changes,
// including the changes by other writers. Call it before waiting for more input.
func (w *Writer) Flush() (changed int) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	return w.s.flush()
}

// check reads the key of an incoming object into w.key. If the store refuses the object, check
// returns the error. size is the number of bytes of the object. The callers of check, and of the
// methods from here to add, hold Store.writing.
func (w *Writer) check(m *wire.Meta, size int) error {
	switch err := w.Err(); {
	case err != nil:
		return err
	case len(m.Name) == 0:
		return ErrNoName
	case len(m.Namespace) > math.MaxUint16 || len(m.Name) > math.MaxUint16:
		return fmt.Errorf("name of %d and namespace of %d bytes: %w", len(m.Name), len(m.Namespace), ErrTooLarge)
	case int64(size) > math.MaxUint32:
		return fmt.Errorf("object of %d bytes: %w", size, ErrTooLarge)
	case w.scope.Namespace != "" && string(m.Namespace) != w.scope.Namespace:
		return fmt.Errorf("%s/%s is not in %s: %w", m.Namespace, m.Name, w.scope.Namespace, ErrOutOfScope)
	}
	w.goingBack = false
	w.key = wire.AppendKey(w.key[:0], m)
	if w.s.batch.has(w.key) {
		w.s.flush() // a batch has at most one change of a key
	}
	return nil
}

// held returns the version in the table under w.key, or nil. The lookup does not retain the key's
// bytes.
func (w *Writer) held() *Object {
	o, _ := w.s.table.get(views.String(w.key))
	return o
}

// receive compares an incoming object with held, the version in the table, and records that the
// source has reported it. If came is newer, the caller must put o. If came is conflicting, the
// caller must store o as unconfirmed. In all other cases receive has recorded everything.
//
// o has size raw bytes, which are not packed. If the caller does not call keep, the writer reuses o
// for the next version.
func (w *Writer) receive(m *wire.Meta, received []byte, size int) (o, held *Object, came order, err error) {
	w.boundRelist()
	if err = w.check(m, size); err != nil {
		return nil, nil, newer, err
	}
	o = w.incoming(m, size)
	w.newest = max(w.newest, o.number())
	if len(received) > 0 {
		o.sum = wire.Fingerprint(w.s.decoder.encoding, received)
	}
	held, came = w.compare(o, received)
	return o, held, came, nil
}

// incoming returns an incoming version, without its key and its bytes.
func (w *Writer) incoming(m *wire.Meta, size int) *Object {
	if w.spare == nil {
		w.spare = new(Object)
	}
	o := w.spare
	*o = Object{size: uint32(size), nsLen: uint16(len(m.Namespace))}
	o.setIdentity(m.UID, m.ResourceVersion)
	if w.manual {
		o.flags |= flagManual
	}
	return o
}

// keep makes o a version of the current key; incoming has returned o. held is another version of
// the key, whose key string o then shares, or nil.
func (w *Writer) keep(o, held *Object) {
	w.spare = nil
	if held != nil {
		o.key = held.key
	} else {
		o.key = string(w.key)
	}
}

// compare decides what an incoming version of the current key changes: see receive. In a relist, it
// drops the staged version of the key unless the incoming version is equal, or will be staged.
func (w *Writer) compare(o *Object, received []byte) (held *Object, came order) {
	if w.isOutdated() {
		return nil, same
	}
	if staged := w.stagedVersion(); staged != nil {
		if w.order(o, staged) == same {
			return nil, same
		}
		defer func() {
			if came != newer {
				w.unstage(staged)
			}
		}()
	}
	delete(w.unconfirmed, string(w.key)) // the source has now reported something later
	if held = w.held(); held == nil {
		if w.s.deletions.outdates(w, o) {
			return nil, conflicting
		}
		delete(w.firstUnconfirmed, string(w.key))
		return nil, newer
	}
	if o.sum != held.sum && o.sameIdentity(held) && w.sameContent(held, received) {
		o.sum = held.sum
	}
	if came = w.ownUnlessNewer(o, held); came == older && w.contradicts(o, held) {
		return held, conflicting
	}
	delete(w.firstUnconfirmed, string(w.key))
	return held, came
}

// sameContent is called if the received bytes and the version in the table have different
// fingerprints. It reports whether their content is the same nevertheless: a different server may
// send the members of a JSON object in a different order.
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

// put adds an incoming version to the batch. The version is packed before the store applies the
// batch.
func (w *Writer) put(m *wire.Meta, o, held *Object, raw []byte, value any) error {
	p := pending{Change: Change{Old: held, New: o}, writer: w}
	b := w.s.filling()
	if err := b.index.prepare(w.s.byteIndexes, &p, m, raw); err != nil {
		return fmt.Errorf("index %s: %w", w.key, err)
	}
	if value != nil {
		p.value = &decodedBox{value}
	}
	w.keep(o, held)
	b.addUnpacked(w.s, &p, raw, m.UID)
	w.s.flushFull()
	return nil
}

// putPacked adds a version that needs no packing to the batch.
func (w *Writer) putPacked(held, o *Object) {
	w.add(&pending{Change: Change{Old: held, New: o}})
}

// add adds to the batch a change that has no bytes to pack.
func (w *Writer) add(p *pending) {
	p.writer = w
	b := w.s.filling()
	_ = b.index.prepare(w.s.byteIndexes, p, nil, nil) // only reading the given bytes can fail
	b.add(p)
}

// delete implements Delete, DeleteAs and DeleteNamesake. If setFinal is not nil, it completes the
// final state of the object.
func (w *Writer) delete(m *wire.Meta, raw []byte, missed bool, setFinal func(o *Object)) error {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	if err := w.check(m, len(raw)); err != nil {
		return err
	}
	o, held := w.incoming(m, len(raw)), w.held()
	stale := held == nil || w.isOutdated() || !held.ownedBy(w) || w.stale(o, held, missed)
	// A deletion that is not older than an unconfirmed version proves that version wrong.
	opaque := o.flags&flagOpaqueRV != 0
	if u, ok := w.unconfirmed[string(w.key)]; ok && (opaque || o.rv >= u.rv) {
		delete(w.unconfirmed, u.key)
		if held != nil && w.replacing { // the object was deleted while the list ran
			held.marks &^= w.bit
		}
	}
	if u, ok := w.firstUnconfirmed[string(w.key)]; ok && (opaque || o.rv >= u.rv) {
		delete(w.firstUnconfirmed, u.key)
	}
	late := !opaque && o.rv <= w.newest
	w.newest = max(w.newest, o.number())
	if w.relist != nil {
		if staged := w.stagedVersion(); staged != nil && (opaque || staged.flags&flagOpaqueRV != 0 || o.rv >= staged.rv) {
			w.unstage(staged)
		}
		if !stale {
			held.marks &^= w.bit // EndReplace deletes the object, unless the source reports it again
		}
		return nil
	}
	unknown := held == nil && setFinal != nil && !late && w.synced && !w.replacing && !w.isOutdated() &&
		(opaque || o.rv > max(w.progress.rv, w.next.rv))
	if stale && !unknown {
		return nil
	}
	p := pending{Change: Change{Old: held, ResourceVersion: o.number(), Missed: missed}, late: late, coalesced: w.coalesced}
	if setFinal != nil {
		w.keep(o, held)
		setFinal(o)
		if p.Final = o; unknown {
			p.Old = o
		}
	}
	w.add(&p)
	w.s.flushFull()
	return nil
}

// BeginReplace starts a replace: from now on, Put marks objects as seen. It aborts a replace that
// is still running. rebase says that the server went back in time. Then Put accepts lower
// resourceVersions, and EndReplace also deletes objects whose resourceVersions are higher than the
// list's.
//
// A replace with rebase may be aborted, and the next replace may also start with rebase. Then, if
// the source has reported something between the two, the store assumes that the server was restored
// a second time.
func (w *Writer) BeginReplace(rebase bool) {
	for _, outdated := range w.beginReplace(rebase) {
		outdated()
	}
}

// beginReplace implements BeginReplace, and returns the functions that the caller must then call
// without a lock.
func (w *Writer) beginReplace(rebase bool) (outdated []func()) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.s.flush()
	w.beginRelist()
	w.sweep(func(o *Object) { o.marks &^= w.bit })
	if w.listed && !w.synced && !w.replacing {
		w.firstUnconfirmed = w.unconfirmed
	}
	w.replacing, w.unconfirmed, w.newest = true, nil, 0
	w.replaces++
	return w.enterGeneration(rebase)
}

// ListRequested records that the list of the next BeginReplace is requested now. Before that
// BeginReplace, another writer may find that the server went back. Then the list may be from before
// or after the restore, so this writer is Outdated even after BeginReplace. If ListRequested was
// not called, BeginReplace assumes that the list is requested at the time of its call.
func (w *Writer) ListRequested() {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.asked = new(w.s.serverGen)
}

// enterGeneration moves the writer to the server generation in which its list was requested. If the
// writer is the first to find that the server went back, enterGeneration starts a new generation,
// and returns the outdated functions of all other writers.
func (w *Writer) enterGeneration(rebase bool) (outdated []func()) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.serverGen
	if w.asked != nil {
		to, w.asked = *w.asked, nil
	}
	if rebase && w.serverGen == s.serverGen && !w.goingBack {
		s.serverGen++
		to = s.serverGen
		for other := range s.writers {
			if other != w && other.outdated != nil {
				outdated = append(outdated, other.outdated)
				other.outdated = nil
			}
		}
	}
	if w.goingBack = w.goingBack || rebase; w.serverGen != to {
		// A list of the new generation replaces the unconfirmed versions of the old generation.
		w.serverGen, w.aboveProgress, w.firstUnconfirmed, w.listed = to, nil, nil, w.listed && w.synced
	}
	return outdated
}

// Replacing reports whether the writer is between BeginReplace and EndReplace or AbortReplace. Only
// the writer's goroutine may call it.
func (w *Writer) Replacing() bool { return w.replacing }

// EndReplace ends a replace at resourceVersion. The writer is then current to that version, and the
// list overrides earlier reports of the source up to that version. After the first replace,
// EndReplace makes all changes of the list visible in one step, unless InParts counts the replace.
// EndReplace removes this writer's owner from every object in the writer's scope that was not seen
// since BeginReplace; cursors return these deletions before the other changes. The list may
// have a lower version of an object than the table. If the list's resourceVersion is not lower than
// the table's version, the list's version replaces the table's.
//
// A version in the table may be newer than the list, compared as integers. It keeps this writer's
// owner if this source reported it and the replace did not start with rebase. If the object was
// deleted after the list, the next watch reports that, because it starts at the list. If only other
// sources reported the version, it loses this writer's owner.
//
// The first EndReplace makes the writer synced. If the list has objects that other sources reported
// as deleted, the writer becomes synced only when the store knows whether they exist. Without a
// preceding BeginReplace, EndReplace removes no owner.
func (w *Writer) EndReplace(resourceVersion string) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.s.flush()
	if w.replacing && !w.isOutdated() {
		at := progressOf(resourceVersion)
		bounded := at.ok && at.rv > 0
		w.endRelist(at.rv, w.having(func(o *Object) bool {
			return o.marks&w.bit == 0 && !w.stages(o.key) && !(bounded && w.lastReceived(o) > at.rv)
		}))
	}
	w.dropRelist()
	w.replacing, w.goingBack, w.listed, w.firstUnconfirmed = false, false, true, nil
	w.progressTo(resourceVersion)
	w.s.flush()
	w.trySync()
}

// AbortReplace ends a replace that broke off. The table keeps all its objects, including those that
// a first replace has put, or a relist in parts. Other relists change nothing. If the writer was
// not synced, the versions that were unconfirmed before the replace become unconfirmed again.
// Versions whose keys the replace reported do not.
func (w *Writer) AbortReplace() {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.abortReplace()
}

func (w *Writer) abortReplace() {
	w.s.flush()
	w.dropRelist()
	if w.replacing {
		w.replacing, w.unconfirmed, w.firstUnconfirmed = false, w.firstUnconfirmed, nil
	}
}

// Remove ends the writer permanently. It removes the writer's owner from all objects of the
// writer's scope, and deletes the objects that have no other owner. After that, Put and Delete
// return ErrWriterRemoved. Further calls are no-ops.
func (w *Writer) Remove() {
	s := w.s
	s.writing.Lock()
	defer s.writing.Unlock()
	if w.removed {
		return
	}
	w.abortReplace()
	s.mu.Lock()
	w.removing = true
	s.mu.Unlock()
	w.release(0, w.having(func(*Object) bool { return true }))
	s.flush()
	w.removed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writers, w)
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// Progress records that the writer is current to resourceVersion, the version of a bookmark or
// event: it has put all changes up to that version. The new version takes effect when the batch is
// flushed, or immediately if the batch is empty. Progress ignores "".
func (w *Writer) Progress(resourceVersion string) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.progressTo(resourceVersion)
}

func (w *Writer) progressTo(resourceVersion string) {
	if resourceVersion == "" || w.removed {
		return
	}
	s := w.s
	w.goingBack = false
	at := progressOf(resourceVersion)
	unsettled := len(w.unconfirmed) > 0 && !w.replacing
	if unsettled {
		w.confirm(at)
	}
	s.mu.Lock()
	if w.next, w.advanced = at, true; s.batch.empty() {
		w.advanceLocked()
	}
	s.mu.Unlock()
	if unsettled {
		s.flush() // after a bookmark the caller does not call Flush, but the writer may become synced now
	}
}

func (w *Writer) advanceLocked() {
	if !w.advanced {
		return
	}
	at := w.next
	if w.next, w.advanced = (progress{}), false; w.isOutdated() {
		return
	}
	w.progress, w.progress.serverGen = at, w.serverGen
	for key, rv := range w.aboveProgress {
		if rv <= w.progress.rv {
			delete(w.aboveProgress, key)
		}
	}
	w.s.deletions.forget(w.s)
	w.s.announceLocked()
}

// ResourceVersion returns the version of the last Progress, or "" before the first.
func (w *Writer) ResourceVersion() string {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.advanced {
		return w.next.text
	}
	return w.progress.text
}

// trySync makes the writer synced if its first replace has ended and the table has all objects of
// that list. If another source has reported an object of the list as deleted, the writer waits: the
// object changed after the list, so this source will report the change.
func (w *Writer) trySync() {
	if !w.listed || w.replacing {
		return
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if checking {
		s.checkTableLocked()
	}
	if w.isOutdated() {
		w.listed = false
	}
	if w.synced || w.removed || !w.listed {
		return
	}
	for key := range w.unconfirmed {
		if held, _ := s.table.get(key); held == nil {
			return
		}
	}
	for key := range w.unconfirmed {
		held, _ := s.table.get(key)
		s.log.awaitVersion(held) // another writer has put the version, which is also in the first list
	}
	w.synced = true
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// sweep visits the objects of this writer's scope that its owner has, in key order.
func (w *Writer) sweep(visit func(o *Object)) {
	eachIn(&w.s.table, w.scope.Namespace, func(o *Object) bool {
		if o.ownedBy(w) {
			visit(o)
		}
		return true
	})
}

// having returns the objects of sweep for which match returns true.
func (w *Writer) having(match func(o *Object) bool) (found []*Object) {
	w.sweep(func(o *Object) {
		if match(o) {
			found = append(found, o)
		}
	})
	return found
}

// release removes the writer's owner from objects in the table. The changes are Missed, because the
// source did not report deletions. end is the resourceVersion at which the source no longer had the
// objects, or 0 if it is unknown.
func (w *Writer) release(end uint64, gone []*Object) {
	for i, o := range gone {
		w.add(&pending{Change: Change{Old: o, ResourceVersion: end, Missed: true}})
		w.s.flushFull()
		gone[i] = nil
	}
}
