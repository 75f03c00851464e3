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

// openList opens a LIST and reads its first item. Only then are the list's resourceVersion and type
// known.
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
// to a time: the state will be at least as new as the server's state was then. It sets asked to the
// number of restores found so far: the state may be older than a restore that is found later.
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
	for ; (err == nil || ofOneItem(err)) && d.fatal == nil; item, err = d.list.Next() {
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
	}
	d.itemType(d.list.ItemTypeMeta())
	head := d.list.Meta()
	d.r.skipped(d.skips, d.skipErr)
	d.r.unwanted(d.unwanted)
	d.r.listed(d.objects, head.RemainingItemCount)
	if err != io.EOF || d.fatal != nil {
		return d.failed(errors.Join(err, d.fatal))
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

// put passes an item of the list to the sink, unless Config.Keep does not want it.
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
