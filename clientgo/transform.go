package clientgo

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// transformLogEvery is the shortest time between two logged errors of one informer's transform. A
// transform may fail for every version, and would otherwise fill the log.
const transformLogEvery = time.Minute

// errTransform is wrapped by the error of a transform that failed, or whose result cannot be
// stored. The error also wraps the reason. In the second case it also wraps errResult.
var (
	errTransform = errors.New("transform")
	errResult    = errors.New("the result cannot be stored")
)

// transformed returns the transform's result for a value, or the value itself if there is no
// transform. If the transform panics and utilruntime.ReallyCrash is false, the error is
// source.ErrPanicked.
func (s *sink) transformed(value any) (changed any, err error) {
	if s.transform == nil {
		return value, nil
	}
	err = source.ErrPanicked
	defer utilruntime.HandleCrash()
	return s.transform(value)
}

// transformAndPut calls the function transformed and stores the value that it returns, encoded if
// possible. The argument received is the bytes of the untransformed value, or nil. decoded is true
// if this package decoded the untransformed value. Its parts are then one allocation. So if it was
// transformed, transformAndPut stores a copy, which does not contain what was removed. Even if the
// transform changes the uid, the store records the server's uid. By this uid, it recognizes the
// object when the server sends the object again.
func (s *sink) transformAndPut(m *wire.Meta, received []byte, decoded bool, transformed func() (any, error)) error {
	value, err := transformed()
	if err != nil {
		return fmt.Errorf("%w: %w", errTransform, err)
	}
	if _, err := wire.IdentityOf(value); err != nil {
		return fmt.Errorf("%w: %w: %w", errTransform, errResult, err)
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
	if s.transform != nil && decoded {
		value = copied(value)
	}
	return s.PutValue(&s.meta, received, value)
}

// transformLog selects which errors of the transform to log.
type transformLog struct {
	last   time.Time // when an error was last logged
	silent int       // number of errors since then that were not logged
}

// next reports whether to log the current error. If so, silent is the number of errors that were
// not logged since the last logged one.
func (l *transformLog) next() (log bool, silent int) {
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < transformLogEvery {
		l.silent++
		return false, 0
	}
	silent, l.last, l.silent = l.silent, now, 0
	return true, silent
}

// report logs why an object is not stored. It logs at most one error of the transform per minute.
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
	utilruntime.HandleError(fmt.Errorf("%s: skipped %s: %w", s.name, wire.AppendKey(nil, m), err))
}

// renames contains the objects to which a transform gave another name or namespace. It maps the
// server's key to the stored name and namespace. With it the sink finds the stored object even if
// the transform fails for the newest version or the final state. renames is nil until a transform
// has renamed an object. The deletion of an object removes its entry, and a relist removes the
// entries of all objects that are no longer stored.
type renames map[string]types.NamespacedName

// note records the name under which an object was stored. namespace and name are the server's; m
// has the stored namespace and name. gone is true if the object was deleted.
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

// apply replaces the server's name and namespace in m by the stored name and namespace, if a
// transform has changed them.
func (r renames) apply(m *wire.Meta) {
	if is, ok := r[string(wire.AppendKey(nil, m))]; ok {
		m.Namespace, m.Name = []byte(is.Namespace), []byte(is.Name)
	}
}

func (r renames) prune(s *store.Store) {
	for key, is := range r {
		m := wire.Meta{Namespace: []byte(is.Namespace), Name: []byte(is.Name)}
		if _, ok := s.Get(string(wire.AppendKey(nil, &m))); !ok {
			delete(r, key)
		}
	}
}
