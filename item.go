package weir

import (
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// Object constrains an informer's type: a pointer to an API type.
type Object interface {
	runtime.Object
	v1.Object
}

// Item is one version of one object, not decoded until Object is called. It is a small value, to be
// passed by value, safe for concurrent use. The zero value is no object: IsZero returns true,
// Object and Copy return ErrNotFound, and nothing else may be called on it.
type Item[T Object] struct {
	version    *store.Object
	reader     *reader
	forHandler bool // a handler was given it: to look at it is no read
}

// IsZero reports whether there is no object.
func (i Item[T]) IsZero() bool { return i.version == nil }

// Key returns "namespace/name", or "name" where there is no namespace.
func (i Item[T]) Key() string { return i.version.Key() }

// Namespace returns metadata.namespace, "" where there is none.
func (i Item[T]) Namespace() string { return i.version.Namespace() }

// Name returns metadata.name.
func (i Item[T]) Name() string { return i.version.Name() }

// UID returns metadata.uid.
func (i Item[T]) UID() string { return i.version.UID() }

// ResourceVersion returns metadata.resourceVersion.
func (i Item[T]) ResourceVersion() string { return i.version.ResourceVersion() }

// Labels returns a copy of metadata.labels, read from the bytes.
func (i Item[T]) Labels() map[string]string { return i.version.Labels() }

// Label returns the value of one label, and whether it is there. It is read from the bytes.
func (i Item[T]) Label(key string) (string, bool) { return i.version.Label(key) }

// Size returns the size of the object as it came, in bytes.
func (i Item[T]) Size() int { return i.version.Size() }

// AppendRaw appends the object's bytes to dst, as they came and in Informer.Encoding, and returns
// the result. An error says that the bytes that are held cannot be unpacked.
func (i Item[T]) AppendRaw(dst []byte) ([]byte, error) { return i.version.AppendRaw(dst) }

// Object returns the decoded object. It is shared: do not modify it unless Options.PrivateCopies is
// set. The first call decodes; what is read again soon stays decoded, except what a handler is
// handed. The error says which object cannot be decoded and why; it is ErrNotFound for the zero
// Item.
func (i Item[T]) Object() (T, error) {
	if i.forHandler {
		return i.decode((*reader).handlerValue)
	}
	return i.decode((*reader).object)
}

// Copy decodes the object for the caller alone, who may modify it. Nothing that anybody did to what
// Object returned shows in it. It returns ErrNotFound for the zero Item.
func (i Item[T]) Copy() (T, error) { return i.decode((*reader).copy) }

func (i Item[T]) decode(as func(*reader, *store.Object) (any, error)) (T, error) {
	var zero T
	if i.version == nil {
		return zero, ErrNotFound
	}
	v, err := as(i.reader, i.version)
	if err != nil {
		return zero, err
	}
	return v.(T), nil
}

// Encoding is how the bytes of objects are encoded.
type Encoding uint8

const (
	// JSON is the encoding of custom resources and of unstructured objects.
	JSON Encoding = iota + 1
	// Protobuf is the encoding of built-in types: that of the type's generated Marshal, without the
	// envelope that kube-apiserver puts around a single object.
	Protobuf
)

// String returns the encoding's name: "json" or "protobuf".
func (e Encoding) String() string { return wire.Encoding(e).String() }
