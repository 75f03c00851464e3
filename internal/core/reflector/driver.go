package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// driver performs the actions of step one after another, in the goroutine of Run. At most one
// stream is open at a time.
type driver struct {
	r   *Reflector
	ctx context.Context // of Run

	list   source.List             // the open LIST, or nil
	watch  source.Watch            // the open WATCH, or nil
	cancel context.CancelCauseFunc // of the request under way; nil without one
	began  time.Time               // when the request was made, or when the watch was answered
	phase  Phase                   // for the errors of the request
	// place is the place of the list under way, also between its pages. nil: no queue bounds it.
	place   *listPlace
	stalled bool // the last list lost its place, and received nothing after that

	// The first item of list, read early because the list's head is complete only then.
	item     source.Object
	itemErr  error
	objects  int64           // listed since the replace began
	size     int64           // the size of those objects, see sizeOf
	initial  *initialEvents  // of watch, until they are complete; then nil
	probe    *probe          // of watch, once it is open; nil without one
	watchCtx context.Context // of watch
	rv       []byte          // of the last event
	// asked is Config.Server's count of restores when the list under way, or the last one, was
	// requested.
	asked uint64
	// newest is the server's newest resourceVersion, by its last answer. newestAt is when it was
	// requested.
	newest   string
	newestAt time.Time
	// stateOf is a time: the list under way, or the last one, has the state of that time or a later
	// one. Zero: unknown.
	stateOf   time.Time
	replacing bool     // the store is being replaced
	sinkRV    string   // the version that the sink is current to
	dirty     bool     // objects were written to the sink since its last flush
	pending   *input   // the input that followed events, which step must handle first
	throttle  throttle // of watches

	meta           wire.Meta
	trimmedMeta    wire.Meta     // of trimmed, if Drop drops labels
	trimmed        []byte        // what Config.Drop has left of an object's bytes
	transcoded     []byte        // what Config.Transcode has made of an object's bytes
	typeMeta       wire.TypeMeta // the type of the objects, as last reported to the Status
	skips          int           // objects that were skipped since the replace began,
	damaged        int           // and those of them that a list may return intact
	unwanted       int64         // objects that Config.Keep did not want since the replace began
	newestObjectRV uint64        // the newest resourceVersion of the objects of a list
	skipErr        error
	fatal          error // from the sink: it accepts no more writes
}

// perform executes the actions that complete immediately. It returns the request or wait among the
// actions, which next executes, or nil. When the sink fails, perform stops and sets fatal.
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

// next executes ask, or reads from the open stream if ask is nil. It blocks until something
// happens, and returns that as an input.
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

// performAtOnce executes a if a completes immediately. Otherwise it returns true: a is a request or
// a wait.
func (d *driver) performAtOnce(a action) (ask bool) {
	sink := d.r.sink
	switch a := a.(type) {
	case closeStream:
		d.close()
	case beginReplace:
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

// endReplace completes the replace: the listed state becomes the store's state.
func (d *driver) endReplace(rv string) {
	sink, stateOf := d.r.sink, d.stateOf
	if d.watch != nil && !stateOf.IsZero() { // the watch has sent all changes since it was opened
		stateOf = time.Now()
	}
	if d.sinkRV == "" { // no reader can see an older state before EndReplace
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

// request makes a request, or waits, and returns the outcome.
func (d *driver) request(a action) input {
	d.close()
	d.pending = nil
	if list, ok := a.(openList); !ok || list.Continue == "" {
		d.leaveList()
	}
	d.began = time.Now()
	switch a := a.(type) {
	case askVersion:
		d.phase = Asking
		return d.askVersion()
	case openList:
		return d.openList(Listing, a.ListOptions)
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

// versionTimeout bounds the request for the server's version. The answer only determines the form
// of lists, so it is not worth a longer wait.
const versionTimeout = 5 * time.Second

// askVersion asks for the server's version.
func (d *driver) askVersion() input {
	ctx, cancel := context.WithTimeoutCause(d.ctx, versionTimeout, source.ErrStalled)
	defer cancel()
	major, minor, err := d.r.src.ServerVersion(ctx)
	if err != nil {
		return d.failed(err)
	}
	return input{typ: inVersion, major: major, minor: minor}
}

// askNewest asks for the server's newest resourceVersion.
func (d *driver) askNewest(a askNewest) input {
	d.phase = Asking
	rv, err := d.r.newestVersion(d.ctx, a.reaches)
	if err != nil {
		return d.failed(err)
	}
	d.r.heard()
	if a.reaches == "" { // otherwise a watch cache that no longer advances may have answered
		if d.newest, d.newestAt = rv, d.began; rv == d.sinkRV {
			d.r.current(d.began)
		}
	}
	return input{typ: inNewest, rv: rv}
}

// read reads from the open stream.
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
	return d.failed(errors.New("nothing is under way")) // no step leads here
}

// close ends the request under way, if there is one. found is the input for which a probe broke the
// request off, or nil. result is what the probes have found.
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

// failed ends the request under way. It returns the failure as an input, or the input for which a
// probe broke the request off.
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

// encoding returns ErrEncoding unless the answer has the sink's encoding or can be transcoded to
// it.
func (d *driver) encoding(enc wire.Encoding) error {
	if want := d.r.cfg.Encoding; want != 0 && enc != want && d.r.cfg.Transcode == nil {
		return &Error{Phase: d.phase, Sentinel: ErrEncoding, Err: fmt.Errorf("%s instead of %s", enc, want)}
	}
	return nil
}

// itemType reports t to the Status and to Config.OnItemType, if t is known and has changed.
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
var errUnwanted = errors.New("the object is not wanted")

// readMeta reads an object's metadata into d.meta, and returns the object in the sink's encoding.
// If it returns errUnwanted, it has read only the metadata.
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

// readMeta reads the metadata from an object's bytes, or the identity from its value.
func readMeta(enc wire.Encoding, o source.Object, m *wire.Meta) error {
	if o.Value == nil {
		return wire.ReadMeta(enc, o.Raw, m)
	}
	return wire.ReadMetaOf(o.Value, m)
}

// write passes the object whose metadata is in d.meta to the sink. It removes the fields that
// Config.Drop drops from the object's bytes. d.meta then has the remaining labels, because indexes
// by label compare d.meta with the stored bytes. t is 0 for an item of a list.
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
// skipped; the driver continues with the next object. offset is where the object ended in its body.
func (d *driver) taken(err error, offset int64) {
	d.dirty = true
	if err == nil {
		return
	}
	if d.fatal = d.r.sink.Err(); d.fatal != nil {
		return
	}
	if _, ok := errors.AsType[Refusal](err); !ok {
		d.damaged++
	}
	if d.skips++; d.skipErr == nil {
		d.skipErr = &Error{Phase: d.phase, Sentinel: ErrMalformed, Err: fmt.Errorf("the object before offset %d: %w", offset, err)}
	}
}
