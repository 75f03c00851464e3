package clientgo

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/store"
)

// undecoded are the objects whose newest version a handler could not be given, because it cannot be decoded, by key. Its bound is
// the objects that cannot be decoded now. It is the handler's goroutine's.
type undecodable map[string]undelivered

type undelivered struct {
	last     *store.Object // that the handler was given; nil: none
	reported *store.Object // the newest one, which it could not be given
}

// resume puts the version that the handler was given last in place of one that it could not be given. It reports false for an event
// of an object that the handler does not know of.
func (u undecodable) adjust(e delivery.Event) (delivery.Event, bool) {
	object, ok := u[e.Key()]
	switch {
	case !ok || e.Type == delivery.Added:
	case object.last != nil:
		e.Old = object.last
		e.Missed = e.Missed || e.New == nil // it is not the final state
	case e.New == nil:
		return e, false
	default:
		e.Type, e.Old = delivery.Added, nil
	}
	return e, true
}

// settle notes what becomes of an event, which has been through resume. It returns the error unless that has been reported.
func (u undecodable) record(e delivery.Event, err error) error {
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

// stub makes an object of what is known of one that cannot be decoded: its names, its uid and its resourceVersion.
func (r *reader) placeholder(o *store.Object) any {
	if r.codec.goType == nil {
		return nil
	}
	object := reflect.New(r.codec.goType.Elem()).Interface()
	if m, err := meta.Accessor(object); err == nil {
		m.SetNamespace(o.Namespace())
		m.SetName(o.Name())
		m.SetUID(types.UID(o.UID()))
		m.SetResourceVersion(o.ResourceVersion())
	}
	return r.codec.setTypeMeta(object)
}
