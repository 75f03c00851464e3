package clientgo

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// transformLogEvery limits how often failed transforms are logged: a transform may fail for every
// version.
const transformLogEvery = time.Minute

// errTransform is wrapped, with the reason, by the error for a transform's result that cannot be
// stored.
var errTransform = errors.New("transform")

// transformed returns the transform's result for a value. A panic of the transform is an error if
// utilruntime.ReallyCrash is false.
func (s *sink) transformed(value any) (changed any, err error) {
	if s.transform == nil {
		return value, nil
	}
	err = errPanicked
	defer utilruntime.HandleCrash()
	return s.transform(value)
}

// transformAndPut stores the result of transformed, encoded if possible. received are the bytes
// that the value was decoded from, or nil. The store keeps the server's uid, even if the transform
// changes it, to recognize the object when it is received again.
func (s *sink) transformAndPut(m *wire.Meta, received []byte, transformed func() (any, error)) error {
	value, err := transformed()
	if err == nil {
		_, err = wire.IdentityOf(value)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errTransform, err)
	}
	s.rename(m, value)
	s.meta = wire.Meta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	switch {
	case s.pin:
	case s.transform == nil && received != nil:
		return s.PutAs(&s.meta, received, received, nil)
	default:
		if raw, ok := s.codec.Encode(value); ok {
			if !s.sharesTransformed || s.transform == nil {
				value = nil
			}
			return s.PutAs(&s.meta, received, raw, value)
		}
	}
	return s.PutValue(&s.meta, received, value)
}

// transformLog selects the failed transforms to log.
type transformLog struct {
	last   time.Time // of the last one that was logged
	silent int       // those that were not logged since then
}

// next reports whether to log the next one, and how many were not logged since the last.
func (l *transformLog) next() (log bool, silent int) {
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < transformLogEvery {
		l.silent++
		return false, 0
	}
	silent, l.last, l.silent = l.silent, now, 0
	return true, silent
}

// report logs why an object is left out. It logs one error of the transform per minute.
func (s *sink) report(m *wire.Meta, err error) {
	if errors.Is(err, errTransform) {
		log, silent := s.failures.next()
		if !log {
			return
		}
		if silent > 0 {
			err = fmt.Errorf("%w (%d others were not logged since the last message)", err, silent)
		}
	}
	utilruntime.HandleError(fmt.Errorf("%s: %s is left out: %w", s.name, wire.AppendKey(nil, m), err))
}

// renames maps the server's keys of objects that a transform has renamed to the name and namespace
// under which they are stored. So an object is found even if its newest version, or its final
// state, cannot be transformed. It is nil until there is such an object. A deletion removes the
// object from it, and a relist all that are no longer stored.
type renames map[string]types.NamespacedName

// note records the name under which an accepted object is stored. namespace and name are the
// server's; m has the stored ones. gone reports that the object was deleted.
func (r renames) note(namespace, name []byte, m *wire.Meta, gone bool) {
	if r == nil {
		return
	}
	key := wire.AppendKey(nil, &wire.Meta{Namespace: namespace, Name: name})
	if gone || bytes.Equal(namespace, m.Namespace) && bytes.Equal(name, m.Name) {
		delete(r, string(key))
		return
	}
	if was, ok := r[string(key)]; ok && was.Namespace == string(m.Namespace) && was.Name == string(m.Name) {
		return
	}
	r[string(key)] = types.NamespacedName{Namespace: string(m.Namespace), Name: string(m.Name)}
}

// apply replaces the server's name and namespace in m by the stored ones.
func (r renames) apply(m *wire.Meta) {
	if is, ok := r[string(wire.AppendKey(nil, m))]; ok {
		m.Namespace, m.Name = []byte(is.Namespace), []byte(is.Name)
	}
}

// prune forgets the objects that are no longer stored.
func (r renames) prune(s *store.Store) {
	for key, is := range r {
		m := wire.Meta{Namespace: []byte(is.Namespace), Name: []byte(is.Name)}
		if _, ok := s.Get(string(wire.AppendKey(nil, &m))); !ok {
			delete(r, key)
		}
	}
}
