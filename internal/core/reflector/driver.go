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

	list   source.List             // open, or nil
	watch  source.Watch            // open, or nil
	cancel context.CancelCauseFunc // of the request under way; nil without one
	began  time.Time               // when it was made, or answered if it is a watch
	phase  Phase                   // for its errors
	// place is that of the list under way, between its pages too. nil: nothing bounds it.
	place   *listPlace
	stalled bool // the last list gave its place away, and then brought nothing

	item     source.Object // of list: read ahead, to know the list's head
	itemErr  error
	objects  int64           // listed since the replace began
	size     int64           // of those, see sizeOf
	initial  *initialEvents  // of watch, until they are complete; else nil
	probe    *probe          // of watch, once it is open; nil without one
	watchCtx context.Context // of watch
	rv       []byte          // of the last event
	// asked counts Config.Server's restores before the list under way, or the last one.
	asked uint64
	// newest is the server's newest resourceVersion, as it was last asked for, and newestAt when.
	newest   string
	newestAt time.Time
	// stateOf is the time of which the list under way, or the last one, is at least. Zero: unknown.
	stateOf   time.Time
	replacing bool     // the store is being replaced
	sinkRV    string   // what the sink is current to
	dirty     bool     // objects were put since the last flush
	pending   *input   // what came after events that had to be told first
	throttle  throttle // of watches

	meta           wire.Meta
	trimmedMeta    wire.Meta     // of trimmed, where labels may be dropped
	trimmed        []byte        // what Config.Drop has left of an object
	transcoded     []byte        // what Config.Transcode has made of one
	typeMeta       wire.TypeMeta // of the objects, as told last
	skips          int           // objects that could not be taken since the replace began,
	damaged        int           // and those of them that a list may have as they are
	unwanted       int64         // objects that Config.Keep did not want since the replace began
	newestObjectRV uint64        // the newest resourceVersion of the objects of a list
	skipErr        error
	fatal          error // of the sink: nothing can be written any more
}

// perform does the actions that are done at once. It returns the request or wait among them, which
// is not done yet, or nil. When the sink fails it does no more, and sets fatal.
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

// next performs ask, or reads on in the open stream if ask is nil. It blocks until something
// happens, and returns it.
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

// performAtOnce does a if that is done at once. Otherwise it reports true: a is a request or a
// wait.
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

// endReplace makes the state that has come the one that is held.
func (d *driver) endReplace(rv string) {
	sink, stateOf := d.r.sink, d.stateOf
	if d.watch != nil && !stateOf.IsZero() { // it has brought all changes since it was opened
		stateOf = time.Now()
	}
	if d.sinkRV == "" { // no reader sees an older state meanwhile
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

// request makes a request, or waits, and returns what came of it.
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

// versionTimeout bounds the question for the server's version. Its answer only chooses the form of
// lists.
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
	if a.reaches == "" { // or else a watch cache may answer it that stands still
		if d.newest, d.newestAt = rv, d.began; rv == d.sinkRV {
			d.r.current(d.began)
		}
	}
	return input{typ: inNewest, rv: rv}
}

// read reads on in the open stream.
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
	return d.failed(errors.New("nothing is under way")) // no step leaves this
}

// close ends the request under way, if there is one. It returns what a probe broke the request off
// for, or nil, and what the probes have found.
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

// failed ends the request under way, and returns its failure as an input, or what a probe broke it
// off for.
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

// itemType tells the Status and Config.OnItemType of t if it is known and has changed.
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
// With errUnwanted it has read only the metadata.
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

// readMeta reads the metadata of bytes, or the identity of a value.
func readMeta(enc wire.Encoding, o source.Object, m *wire.Meta) error {
	if o.Value == nil {
		return wire.ReadMeta(enc, o.Raw, m)
	}
	return wire.ReadMetaOf(o.Value, m)
}

// write passes the object whose metadata is in d.meta to the sink, without what Config.Drop drops
// from its bytes. The labels in d.meta are then those that are left: indexes by label compare them
// with those of the bytes that are held. t is 0 for an item of a list.
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

// taken notes what came of writing an object. If err is not nil, the object is counted as skipped,
// and the others go on. offset is where the object ended in its body.
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
