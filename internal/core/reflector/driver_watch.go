package reflector

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// maxBatch is the maximum number of events that readWatch reads in one step.
const maxBatch = 128

// openWatch opens a WATCH. The deadline for its initial events starts with the request, because a
// server may also hang before it responds.
func (d *driver) openWatch(a openWatch) input {
	d.phase = Watching
	switch {
	case a.initial:
		d.phase = Listing
		if err := d.enterList(); err != nil {
			return d.failed(err)
		}
		d.listRequested(a.rv)
	case d.r.sink.Outdated(), d.r.cfg.Server.found() > d.r.seen:
		return input{typ: inOutdated}
	case d.r.coalesced != "":
		return input{typ: inFailed, err: errBrokeOff}
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.watchCtx, d.cancel = ctx, cancel
	if a.deadline > 0 {
		d.initial = awaitInitial(a.deadline, func() { cancel(ErrNoBookmark) })
	}
	watch, err := d.r.src.Watch(ctx, a.options(d.r.cfg.Query))
	if err != nil {
		return d.failed(err)
	}
	d.watch, d.rv = watch, d.rv[:0]
	if err := d.encoding(watch.Encoding()); err != nil {
		return d.failed(err)
	}
	if a.probe > 0 {
		d.probe = startProbe(d.r, ctx, cancel, d.sinkRV, a, d.r.seen)
	}
	watch.BeforeRead(d.wait)
	// The watch is open from now on. The request may be much older, because a server may respond late.
	d.began = time.Now()
	return input{typ: inOpened}
}

// wait is called each time before a watch waits for the network. It makes all received events
// visible now, so that they do not wait until the next event has arrived completely. It also
// releases the memory of the last object, so that waiting watches use little memory.
func (d *driver) wait() {
	d.flush()
	d.meta.Forget()
	d.trimmedMeta.Forget()
	for _, buffer := range []*[]byte{&d.trimmed, &d.transcoded} {
		if cap(*buffer) > maxIdleBuffer {
			*buffer = nil
		}
	}
}

// maxIdleBuffer is the maximum size, in bytes, of each buffer that a waiting watch keeps.
const maxIdleBuffer = 64 << 10

// flush makes the written objects visible, and calls the sink's Progress with the version of the
// last one.
func (d *driver) flush() {
	if !d.dirty {
		return
	}
	d.dirty = false
	moved := false
	// Initial events are not in the order of their versions, so they do not say how current the store
	// is.
	if d.watch != nil && d.initial == nil && len(d.rv) > 0 {
		moved = d.progress(d.settled(string(d.rv)))
	}
	d.r.sink.Flush()
	if d.fatal = d.r.sink.Err(); d.fatal != nil {
		if d.cancel != nil {
			d.cancel(d.fatal) // otherwise Next could wait for the rest of an event
		}
		return
	}
	if moved {
		d.r.setResourceVersion(d.sinkRV)
	}
	d.r.skipped(d.skips, d.skipErr)
	d.r.unwanted(d.unwanted)
	d.hear(true)
}

// progress calls the sink's Progress with rv, unless rv is older than the version of the last such
// call. If rv equals that version, progress calls Progress again: Progress decides about objects
// whose version is unconfirmed, and another writer may have changed such an object since the last
// call. progress returns true if rv is newer than the version of the last call.
func (d *driver) progress(rv string) bool {
	if rv == "" || resourceversion.Older(rv, d.sinkRV) {
		return false
	}
	moved := rv != d.sinkRV
	d.sinkRV = rv
	d.r.sink.Progress(rv)
	return moved
}

// readWatch reads events until the next one has not arrived yet, or until it has read maxBatch
// events. It also stops after a bookmark, an error, or an event that it could not read.
func (d *driver) readWatch() input {
	events, damaged, other, initial := 0, d.damaged, input{}, d.initial != nil
	encoding := d.watch.Encoding() // read before the loop, because d.watch is nil after its end
	for other.typ == inNone {
		event, err := d.watch.Next()
		switch {
		case err == io.EOF:
			_, result := d.close()
			other = input{typ: inEnded, probe: result}
		case ofOneItem(err):
			d.taken(err, d.watch.Offset())
			events++
		case err != nil:
			other = d.failed(err)
		case event.Type == wire.Bookmark:
			other = d.bookmark(event.Object)
		case event.Type == wire.Error:
			other = d.failed(wire.DecodeStatus(d.watch.Encoding(), event.Raw))
		default:
			d.apply(event)
			events++
		}
		if end := errors.Join(d.fatal, d.refused); end != nil {
			return d.failed(end)
		}
		if events == maxBatch || d.damaged > damaged || other.typ == inNone && d.watch.Buffered() == 0 {
			break
		}
	}
	if initial { // the initial events may have been complete only at the end of this batch
		d.objects += int64(events)
		d.r.listed(d.objects, -1)
	}
	if d.flush(); events == 0 {
		return other
	}
	d.throttle.wait(d.ctx, d.r.sink, events, longestWait(encoding))
	if other.typ != inNone {
		d.pending = &other
	}
	return input{typ: inEvents, rv: d.settled(string(d.rv)), damaged: d.damaged - damaged}
}

// errBrokeOff is the error of a watch that cannot resume: the last watch ended among coalesced
// changes, so the store does not have the state of any resourceVersion.
var errBrokeOff = &Error{Phase: Watching, Sentinel: ErrExpired, Err: errors.New("the previous watch ended within coalesced changes")}

// settled returns rv, the version of an event or bookmark, if the store is current to rv. It
// returns "" while the server coalesces changes up to a later version.
func (d *driver) settled(rv string) string {
	switch {
	case d.r.coalesced == "" || rv == "" || d.initial != nil:
	case resourceversion.Older(rv, d.r.coalesced):
		return ""
	default:
		d.r.coalesced = ""
		d.r.sink.Coalesced("")
	}
	return rv
}

// hear records that the watch has sent something. current is true if what it sent shows that the
// store is current. hear ignores current while the store is being replaced, or while the server
// coalesces changes.
func (d *driver) hear(current bool) {
	if d.watch == nil {
		return
	}
	d.r.heard()
	if current && !d.replacing && d.r.coalesced == "" {
		d.r.current(time.Now())
	}
	if d.probe != nil {
		d.probe.hear(d.sinkRV, current)
	}
}

// apply writes the object of an event to the sink. If the object cannot be read, apply counts it as
// skipped. The event that causes a list does not change d.rv: until the list has ended, the sink
// lacks its object, and must not count as current to its version.
func (d *driver) apply(event source.Event) {
	d.itemType(event.TypeMeta)
	object, err := d.readMeta(d.watch.Encoding(), event.Object)
	unwanted, rv := err == errUnwanted, d.meta.ResourceVersion
	if err != nil && !unwanted {
		rv = d.rv
	} else if d.initial != nil {
		d.place.moves()
		d.initial.extend(event.Type, rv)
		d.size += sizeOf(event.Object)
		d.noteVersion()
	}
	switch {
	case unwanted:
		err = d.applyUnwanted(event)
	case err == nil:
		err = d.write(event.Type, object)
	}
	listed := d.damaged > 0 // a list could not read all objects, so no further list follows
	if d.taken(err, d.watch.Offset()); listed || d.damaged == 0 {
		d.rv = append(d.rv[:0], rv...)
	}
}

// applyUnwanted counts an object that Config.Keep does not want. If the event is not a deletion,
// the object exists. Then a stored object with the same name is an older object that was deleted,
// and its deletion event may have been missed. So applyUnwanted deletes the stored object.
func (d *driver) applyUnwanted(event source.Event) error {
	d.unwanted++
	if event.Type == wire.Deleted {
		return nil
	}
	return d.r.sink.DeleteNamesake(&d.meta, event.Raw)
}

// bookmark handles a bookmark, and returns the input for step. A bookmark that cannot be read
// counts as a skipped object, and the input is empty.
func (d *driver) bookmark(object source.Object) input {
	if err := readBookmark(d.watch.Encoding(), object, &d.meta); err != nil {
		d.taken(err, d.watch.Offset())
		return input{}
	}
	final := d.meta.InitialEventsEnd()
	if final && d.initial != nil {
		d.initial.timer.Stop()
		d.leaveList()
		d.initial, d.phase, d.rv = nil, Watching, d.rv[:0]
		d.probe = startProbe(d.r, d.watchCtx, d.cancel, string(d.meta.ResourceVersion), openWatch{probe: bookmarkPeriod}, d.asked)
	}
	// A watch cache that no longer advances repeats the same version every minute. So a repeated
	// version does not show that the store is current.
	repeated := string(d.meta.ResourceVersion) == d.sinkRV && !final
	current := !repeated && !resourceversion.Older(string(d.meta.ResourceVersion), d.sinkRV)
	defer func() { d.hear(current) }()
	if upTo := d.meta.Coalesced(); upTo != "" && d.initial == nil && !final {
		if d.r.coalesced == "" || !resourceversion.Older(upTo, d.r.coalesced) {
			d.flush() // the events before the bookmark are not coalesced
			d.r.coalesced = upTo
			d.r.sink.Coalesced(upTo)
		}
		return input{}
	}
	if d.r.coalesced != "" && d.initial == nil && !final && d.settled(string(d.meta.ResourceVersion)) == "" {
		return input{}
	}
	return input{typ: inBookmark, rv: string(d.meta.ResourceVersion), final: final, damaged: d.damaged}
}

// readBookmark reads the metadata of a bookmark from its bytes, or from its Go value.
func readBookmark(enc wire.Encoding, o source.Object, m *wire.Meta) error {
	if o.Value == nil {
		return wire.ReadMeta(enc, o.Raw, m)
	}
	return wire.ReadBookmarkOf(o.Value, m)
}

// initialStep is the time by which an event that may be a change extends the deadline. Servers send
// initial events at a higher rate than one per initialStep.
const initialStep = time.Millisecond

// initialEvents contains the deadline for the bookmark that ends the initial events of a watch. A
// server that does not support initial events sends the state and then its changes, but never that
// bookmark. The driver stops the timer when it closes the watch.
type initialEvents struct {
	deadline time.Duration
	timer    *time.Timer
	until    time.Time
	newest   []byte // the newest resourceVersion of the received events
}

func awaitInitial(deadline time.Duration, late func()) *initialEvents {
	return &initialEvents{deadline: deadline, timer: time.AfterFunc(deadline, late), until: time.Now().Add(deadline)}
}

// extend moves the deadline after an event. Changes arrive in the order of their versions. So an
// ADDED event that is older than an earlier event is an initial event, and starts the full time
// again. Most initial events are such events, because they arrive in the order of keys. Any other
// event may be a change, and extends the time only by initialStep.
func (i *initialEvents) extend(t wire.EventType, rv []byte) {
	switch {
	case t == wire.Added && (len(i.newest) == 0 || resourceversion.Older(string(rv), string(i.newest))):
		i.until = time.Now().Add(i.deadline)
	default:
		i.until = i.until.Add(initialStep)
	}
	if !resourceversion.Older(string(rv), string(i.newest)) {
		i.newest = append(i.newest[:0], rv...)
	}
	i.timer.Reset(time.Until(i.until))
}
