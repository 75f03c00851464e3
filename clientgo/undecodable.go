package clientgo

import (
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// undecodable contains, by key, the objects whose newest version could not be delivered to a
// handler because it cannot be decoded. Its size is at most the number of objects that cannot be
// decoded now. Only the handler's calls use it, one at a time.
type undecodable map[string]undelivered

type undelivered struct {
	last     *store.Object // the version that was delivered last, or nil
	reported *store.Object // the newest version, whose error was reported
}

// adjust replaces a version that could not be delivered by the version that was delivered last. It
// reports false for an event of an object that the handler has never received.
func (u undecodable) adjust(e store.Change) (store.Change, bool) {
	object, ok := u[e.Key()]
	switch {
	case !ok || e.Old == nil:
	case object.last != nil:
		e.Old = object.last
		e.Missed = e.Missed || e.New == nil // the delivered version is not the final state
	case e.New == nil:
		return e, false
	default:
		e.Old = nil
	}
	return e, true
}

// record records the outcome of an adjusted event. It returns err unless that has been reported for
// this version.
func (u undecodable) record(e store.Change, err error) error {
	if err == nil || e.New == nil {
		delete(u, e.Key())
		return nil
	}
	if u[e.Key()].reported == e.New {
		return nil
	}
	u[e.Key()] = undelivered{e.Old, e.New}
	return err
}

// placeholder returns an object with the known parts of one that cannot be decoded: its names, uid
// and resourceVersion.
func (r *reader) placeholder(o *store.Object) any {
	if r.codec.Type() == nil {
		return nil
	}
	object := r.codec.New()
	codec.SetIdentity(object, wire.Identity{Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(), ResourceVersion: o.ResourceVersion()})
	return object
}
