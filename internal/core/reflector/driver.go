package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// driver performs the actions that step returns, in the goroutine of Run. At most one stream is
// open at a time.
type driver struct {
	r   *Reflector
	ctx context.Context // the context of Run

	list   source.List             // the open LIST, or nil
	watch  source.Watch            // the open WATCH, or nil
	cancel context.CancelCauseFunc // ends the current request; nil if there is none
	began  time.Time               // when the request was sent or, for an open watch, answered
	phase  Phase                   // the phase for errors of the current request
	// place is the current list's place in the queue, which permits it to run. The list keeps it from
	// its first page to its last; see listQueue. place is nil if there is no list, or if no queue
	// limits lists.
	place   *listPlace
	stalled bool // the last list lost its place and then received nothing

	// The first item of the open LIST, and the error of reading it. openList reads the item, because
	// the list's metadata and type are known only after that.
	item     source.Object
	itemErr  error
	objects  int64           // the number of objects listed since the replace began
	size     int64           // the total size of those objects, as sizeOf measures it
	initial  *initialEvents  // of watch, until the initial events are complete; then nil
	probe    *probe          // of watch, once it is open; otherwise nil
	watchCtx context.Context // the context of watch
	rv       []byte          // the resourceVersion of the last event
	// asked is Config.Server's number of restores when the latest list was requested.
	asked uint64
	// newest is the server's newest resourceVersion in its last response to a probe. newestAt is when
	// the probe was sent.
	newest   string
	newestAt time.Time
	// stateOf is a time. The state in the current list, or in the last one, is at least as new as the
	// server's state was at that time. Zero means that the time is unknown.
	stateOf   time.Time
	replacing bool     // between beginReplace and the end of the replace
	sinkRV    string   // the version that the sink is current to
	dirty     bool     // objects were written to the sink since its last flush
	pending   *input   // what happened after the events of the last step; step must handle it next
	throttle  throttle // of the events of watches

	meta        wire.Meta
	trimmedMeta wire.Meta     // the metadata of trimmed, if Drop drops labels or annotations
	trimmed     []byte        // an object's bytes without the fields that Config.Drop drops
	transcoded  []byte        // an object's bytes after Config.Transcode
	typeMeta    wire.TypeMeta // the type of the objects, as set in the Status
	skips       int           // the number of objects that were skipped since the replace began
	damaged     int           // the number of skipped objects that another list may return intact
	// the number of objects that Config.Keep did not want since the replace began
	unwanted       int64
	newestObjectRV uint64 // the newest resourceVersion of the objects in a list
	skipErr        error
	fatal          error // an error of the sink, which accepts no more writes
	refused        error // a Refusal that ends the current list
}

// perform executes the actions that need no waiting. If one of the actions is a request or a wait,
// perform returns it, and the method next executes it. Otherwise perform returns nil. If the sink
// fails, perform stops and sets d.fatal.
func (d *driver) perform(actions []action) (ask action) {
	for _, a := range actions {
		if d.performAtOnce(a) {
			ask = a
		}
		if d.fatal = d.r.sink.Err(); d.fatal != nil {
			return nil
		}
	}
	return ask
}

// next executes ask, which is a request or a wait. If ask is nil, next reads from the open stream.
// It blocks until something happens, and returns that as the input of the next step.
func (d *driver) next(ask action) (in input) {
	if ask != nil {
		in = d.request(ask)
	} else {
		in = d.read()
	}
	in.after, in.jitter = time.Since(d.began), d.r.cfg.Backoff.Random()
	switch in.typ {
	case inFailed, inEnded, inPage, inBookmark:
		in.size = d.size
		if d.newestObjectRV > 0 {
			in.newestObjectRV = resourceversion.Format(d.newestObjectRV)
		}
	}
	return in
}

// performAtOnce executes an action that is not a request or a wait. For a request or a wait it does
// nothing and returns true.
func (d *driver) performAtOnce(a action) (ask bool) {
	sink := d.r.sink
	switch a := a.(type) {
	case closeStream:
		d.close()
	case beginReplace:
		d.refused = nil
		d.skips, d.damaged, d.skipErr, d.objects, d.size, d.newestObjectRV, d.unwanted = 0, 0, nil, 0, 0, 0, 0
		d.r.skipped(0, nil)
		d.r.unwanted(0)
		d.r.listed(0, -1)
		d.replacing = true
		if a.restored {
			d.asked = d.r.cfg.Server.wentBack(d.r.seen)
		}
		sink.BeginReplace(a.rebase)
	case endReplace:
		d.endReplace(a.rv)
	case abortReplace:
		d.replacing = false
		sink.AbortReplace()
	case progress:
		if d.progress(a.rv) && sink.Err() == nil {
			d.r.setResourceVersion(a.rv)
			d.probe.setResourceVersion(d.sinkRV)
		}
	default:
		return true
	}
	return false
}

// endReplace ends the replace: the listed state becomes the store's state.
func (d *driver) endReplace(rv string) {
	sink, stateOf := d.r.sink, d.stateOf
	// a watch has also sent all changes that were made while it sent the initial events
	if d.watch != nil && !stateOf.IsZero() {
		stateOf = time.Now()
	}
	// The Status must say how current the first state is before EndReplace makes that state visible.
	if d.sinkRV == "" {
		d.r.current(stateOf)
	}
	if sink.EndReplace(rv); sink.Err() == nil {
		d.r.current(stateOf)
	}
	if d.r.coalesced != "" {
		d.r.coalesced = ""
		sink.Coalesced("")
	}
	d.sinkRV, d.dirty, d.replacing, d.r.seen = rv, false, false, d.asked
	d.probe.setResourceVersion(d.sinkRV)
}

// request executes the action a: it sends a request and blocks until the response arrives, or it
// waits for a time. It returns the outcome.
func (d *driver) request(a action) input {
	d.close()
	d.pending = nil
	if list, ok := a.(openList); !ok || list.page == "" {
		d.leaveList()
	}
	d.began = time.Now()
	switch a := a.(type) {
	case askVersion:
		d.phase = Asking
		return d.askVersion()
	case openList:
		return d.openList(a)
	case askNewest:
		return d.askNewest(a)
	case openWatch:
		return d.openWatch(a)
	case wait:
		timer := time.NewTimer(a.d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-d.ctx.Done():
		}
	}
	return input{typ: inWoke}
}

// versionTimeout limits the request for the server's version. A longer wait is not worthwhile,
// because the version only decides whether lists are in pages.
const versionTimeout = 5 * time.Second

func (d *driver) askVersion() input {
	ctx, cancel := context.WithTimeoutCause(d.ctx, versionTimeout, source.ErrStalled)
	defer cancel()
	major, minor, err := d.r.src.ServerVersion(ctx)
	if err != nil {
		return d.failed(err)
	}
	return input{typ: inVersion, major: major, minor: minor}
}

func (d *driver) askNewest(a askNewest) input {
	d.phase = Asking
	rv, err := d.r.newestVersion(d.ctx, a)
	if err != nil {
		return d.failed(err)
	}
	d.r.heard()
	if a.reaches == "" { // with the condition, a watch cache that no longer advances may have answered
		if d.newest, d.newestAt = rv, d.began; rv == d.sinkRV {
			d.r.current(d.began)
		}
	}
	return input{typ: inNewest, rv: rv}
}

func (d *driver) read() input {
	switch {
	case d.pending != nil:
		in := *d.pending
		d.pending = nil
		return in
	case d.list != nil:
		return d.readList()
	case d.watch != nil:
		return d.readWatch()
	}
	// not reached: every step keeps a stream open or returns a request or a wait
	return d.failed(errors.New("no request is in progress"))
}

// close ends the current request and its stream, if there are any. If a probe had ended the stream,
// found is the input with the probe's reason; otherwise found is nil. result says what the probes
// of the stream have found.
func (d *driver) close() (found *input, result probeResult) {
	if d.initial != nil {
		d.initial.timer.Stop()
		d.initial = nil
	}
	if d.list != nil {
		d.list.Close()
		d.list = nil
	}
	if d.watch != nil {
		d.watch.Close()
		d.watch = nil
	}
	if d.cancel != nil {
		d.cancel(nil)
		d.cancel = nil
	}
	if d.probe != nil {
		found, result = d.probe.stop()
		d.probe = nil
	}
	d.item, d.itemErr = source.Object{}, nil
	return found, result
}

// failed ends the current request. It returns an input with the failure or, if a probe ended the
// stream, the input with the probe's reason.
func (d *driver) failed(err error) input {
	streaming := d.watch != nil
	torn := streaming && d.watch.Buffered() > 0
	found, result := d.close()
	if found != nil && errors.Is(err, errProbed) {
		return *found
	}
	in := input{typ: inFailed, err: classify(d.phase, err), torn: torn, probe: result}
	in.err.Request = !streaming
	in.retryAfter = retryAfterOf(err)
	return in
}

// encoding returns ErrEncoding unless the response has the sink's encoding, or Config.Transcode can
// convert it.
func (d *driver) encoding(enc wire.Encoding) error {
	if want := d.r.cfg.Encoding; want != 0 && enc != want && d.r.cfg.Transcode == nil {
		return &Error{Phase: d.phase, Sentinel: ErrEncoding, Err: fmt.Errorf("%s instead of %s", enc, want)}
	}
	return nil
}

// itemType sets the type in the Status and calls Config.OnItemType with t, if t is known and has
// changed.
func (d *driver) itemType(t wire.TypeMeta) {
	if t.Kind == "" || t == d.typeMeta {
		return
	}
	d.typeMeta = t
	d.r.itemType(t)
	if d.r.cfg.OnItemType != nil {
		d.r.cfg.OnItemType(t)
	}
}

// errUnwanted is returned by readMeta for an object that Config.Keep does not want.
var errUnwanted = errors.New("the object is excluded")

// readMeta reads an object's metadata into d.meta, and returns the object in the sink's encoding.
// If Config.Keep does not want the object, the error is errUnwanted, and the returned object is not
// converted.
func (d *driver) readMeta(enc wire.Encoding, o source.Object) (source.Object, error) {
	want, keep := d.r.cfg.Encoding, d.r.cfg.Keep
	read := keep != nil || o.Value != nil
	if read {
		if err := readMeta(enc, o, &d.meta); err != nil {
			return o, err
		}
		if keep != nil && !keep(&d.meta) {
			return o, errUnwanted
		}
	}
	if o.Value == nil && want != 0 && enc != want {
		transcoded, err := d.r.cfg.Transcode(d.transcoded[:0], o.Raw)
		if err != nil {
			return o, err
		}
		d.transcoded, enc, o.Raw, read = transcoded, want, transcoded, false
	}
	if read {
		return o, nil
	}
	return o, wire.ReadMeta(enc, o.Raw, &d.meta)
}

// readMeta reads the metadata from an object's bytes, or the identity of its Go value.
func readMeta(enc wire.Encoding, o source.Object, m *wire.Meta) error {
	if o.Value == nil {
		return wire.ReadMeta(enc, o.Raw, m)
	}
	return wire.ReadMetaOf(o.Value, m)
}

// write passes the object whose metadata is in d.meta to the sink, without the fields that
// Config.Drop drops. It also removes dropped labels from d.meta, because indexes by label compare
// d.meta with the stored bytes. t is 0 for an item of a list.
func (d *driver) write(t wire.EventType, o source.Object) error {
	if drop := d.r.cfg.Drop; drop != nil && o.Value == nil {
		trimmed, err := drop.Append(d.trimmed[:0], o.Raw)
		if err != nil {
			return err
		}
		d.trimmed, o.Raw = trimmed, trimmed
		if drop.DropsLabels() {
			if err := wire.ReadMeta(drop.Encoding(), trimmed, &d.trimmedMeta); err != nil {
				return err
			}
			d.meta.TakeLabels(&d.trimmedMeta)
		}
	}
	return d.r.sink.Take(t, &d.meta, o.Raw, o.Value)
}

// taken records the result of writing an object. If err is not nil, it counts the object as
// skipped, and the driver continues with the next object, unless err ends the list. offset is the
// end of the object in the body, for the error.
func (d *driver) taken(err error, offset int64) {
	d.dirty = true
	if err == nil {
		return
	}
	if d.fatal = d.r.sink.Err(); d.fatal != nil {
		return
	}
	refusal, ok := errors.AsType[Refusal](err)
	if ok && refusal.EndsList && d.replacing {
		d.refused = &Error{Phase: d.phase, Sentinel: ErrMalformed, Err: refusal}
		return
	}
	if !ok {
		d.damaged++
	}
	if d.skips++; d.skipErr == nil {
		d.skipErr = &Error{Phase: d.phase, Sentinel: ErrMalformed, Err: fmt.Errorf("the object before offset %d: %w", offset, err)}
	}
}

// enterList blocks until the list may start, as Config.MaxLists says. It is a no-op for the further
// pages of a list.
func (d *driver) enterList() (err error) {
	if d.place == nil {
		d.r.queued(true)
		defer d.r.queued(false)
		d.place, err = d.r.cfg.Server.enterList(d.ctx, d.r.cfg.MaxLists, d.stalled)
		d.began = time.Now()
	}
	return err
}

// leaveList releases the list's place, so that another list may start.
func (d *driver) leaveList() {
	if d.place != nil {
		d.stalled = d.place.leave()
		d.place = nil
	}
}

// openList opens a LIST and reads its first item, because the list's resourceVersion and type are
// known only after that.
func (d *driver) openList(a openList) input {
	d.phase = Listing
	if err := d.enterList(); err != nil {
		return d.failed(err)
	}
	if a.page == "" {
		d.listRequested(a.rv)
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.cancel = cancel
	list, err := d.r.src.List(ctx, a.options(d.r.cfg.Query))
	if err != nil {
		return d.failed(err)
	}
	d.list = list
	if err := d.encoding(list.Encoding()); err != nil {
		return d.failed(err)
	}
	if d.item, d.itemErr = list.Next(); d.itemErr != nil && d.itemErr != io.EOF && !ofOneItem(d.itemErr) {
		in := d.failed(d.itemErr)
		in.answered = true
		return in
	}
	d.place.moves()
	d.itemType(list.ItemTypeMeta())
	d.r.heard()
	d.r.probeLimit.listed(time.Since(d.began))
	return input{typ: inOpened, rv: list.Meta().ResourceVersion, empty: d.itemErr == io.EOF}
}

// listRequested is called before a request for a state that is not older than rv. It sets stateOf
// to a time for which the state will be current. It sets asked to the number of restores found so
// far, because the state may be older than a restore that is found later.
func (d *driver) listRequested(rv string) {
	switch rv {
	case "":
		d.stateOf = time.Now()
	case d.newest:
		d.stateOf = d.newestAt
	default:
		d.stateOf = time.Time{} // a watch cache that no longer advances may send an old state
	}
	d.asked = d.r.cfg.Server.found()
	d.r.sink.ListRequested()
}

// listedEvery is the number of objects after which readList updates Status.Listed.
const listedEvery = 256

// sizeOf returns the size of a listed object, as the number of small objects that cost as much.
func sizeOf(o source.Object) int64 { return 1 + int64(len(o.Raw))/smallObject }

// readList reads the LIST, or one page of it, to its end.
func (d *driver) readList() input {
	item, err := d.item, d.itemErr
	for ; err == nil || ofOneItem(err); item, err = d.list.Next() {
		d.size += sizeOf(item)
		d.place.moves()
		if err == nil {
			if d.typeMeta.Kind == "" { // no earlier item stated the type
				d.itemType(d.list.ItemTypeMeta())
			}
			d.put(item)
		} else {
			d.taken(err, d.list.Offset())
		}
		if d.objects++; d.objects%listedEvery == 0 {
			d.r.listed(d.objects, d.list.Meta().RemainingItemCount)
		}
		if end := errors.Join(d.fatal, d.refused); end != nil {
			return d.failed(end)
		}
	}
	d.itemType(d.list.ItemTypeMeta())
	head := d.list.Meta()
	d.r.skipped(d.skips, d.skipErr)
	d.r.unwanted(d.unwanted)
	d.r.listed(d.objects, head.RemainingItemCount)
	if err != io.EOF {
		return d.failed(err)
	}
	d.close()
	d.r.heard()
	return input{typ: inPage, rv: head.ResourceVersion, cont: head.Continue, damaged: d.damaged}
}

// ofOneItem reports whether err concerns only one item or event, and the stream can continue.
func ofOneItem(err error) bool {
	_, ok := errors.AsType[*wire.ItemError](err)
	return ok
}

// put passes an item of the list to the sink if Config.Keep wants it.
func (d *driver) put(item source.Object) {
	item, err := d.readMeta(d.list.Encoding(), item)
	switch err {
	case nil:
		d.noteVersion()
		err = d.write(0, item)
	case errUnwanted:
		d.noteVersion()
		d.unwanted++
		err = nil
	}
	d.taken(err, d.list.Offset())
}

// noteVersion raises newestObjectRV to the resourceVersion of the object whose metadata is in
// d.meta. The object is from a list or from initial events.
func (d *driver) noteVersion() {
	if rv, err := resourceversion.Parse(d.meta.ResourceVersion); err == nil {
		d.newestObjectRV = max(d.newestObjectRV, rv)
	}
}
