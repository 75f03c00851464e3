package weir

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/store"
)

// Object is what an informer's type can be: a pointer to an API type.
type Object interface {
	runtime.Object
	v1.Object
}

// Item is one version of one object, not decoded until Object is called. It is a small value, to be passed by value,
// safe for concurrent use. The zero value is no object: only IsZero may be called on it.
type Item[T Object] struct {
	o      *store.Object
	from   *reader
	handed bool // to a handler: to look at it is no read
}

// IsZero reports whether there is no object.
func (i Item[T]) IsZero() bool { return i.o == nil }

// Key is "namespace/name", or "name" where there is no namespace.
func (i Item[T]) Key() string { return i.o.Key() }

// Namespace is metadata.namespace.
func (i Item[T]) Namespace() string { return i.o.Namespace() }

// Name is metadata.name.
func (i Item[T]) Name() string { return i.o.Name() }

// UID is metadata.uid.
func (i Item[T]) UID() string { return i.o.UID() }

// ResourceVersion is metadata.resourceVersion.
func (i Item[T]) ResourceVersion() string { return i.o.ResourceVersion() }

// Labels is a copy of metadata.labels, read from the bytes.
func (i Item[T]) Labels() map[string]string { return i.o.Labels() }

// Label is the value of one label, and whether it is there. It is read from the bytes.
func (i Item[T]) Label(key string) (string, bool) { return i.o.Label(key) }

// Size is the size of the object as it came, in bytes.
func (i Item[T]) Size() int { return i.o.Size() }

// AppendRaw appends the object's bytes as they came (see Informer.Encoding) to dst.
func (i Item[T]) AppendRaw(dst []byte) ([]byte, error) { return i.o.AppendRaw(dst) }

// Object is the decoded object, shared and read-only unless Options.PrivateCopies is set. It decodes on the first call; what is
// read again soon stays decoded, but for what a handler is handed. An error says which object cannot be decoded and why.
func (i Item[T]) Object() (T, error) {
	if i.handed {
		return i.decoded((*reader).glance)
	}
	return i.decoded((*reader).object)
}

// Copy decodes the object for the caller alone, who may change it. What anybody has done to what Object gave him does not show.
func (i Item[T]) Copy() (T, error) { return i.decoded((*reader).copy) }

func (i Item[T]) decoded(as func(*reader, *store.Object) (any, error)) (T, error) {
	var zero T
	if i.o == nil {
		return zero, ErrNotFound
	}
	v, err := as(i.from, i.o)
	if err != nil {
		return zero, err
	}
	return v.(T), nil
}
