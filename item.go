package weir

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Object is the constraint for an informer's type: a pointer to an API type.
type Object interface {
	runtime.Object
	v1.Object
}

// Item is one version of one object. Object decodes it. Pass an Item by value: it is small and safe
// for concurrent use. The zero value is no object: IsZero returns true, Object and Copy return
// ErrNotFound, and no other method may be called.
type Item[T Object] struct {
	version    *store.Object
	reader     *reader
	forHandler bool // a handler received the item: the informer does not keep the decoded object
}

// IsZero reports whether the item is the zero value, which is no object.
func (i Item[T]) IsZero() bool { return i.version == nil }

// Key returns "namespace/name", or "name" if the object has no namespace.
func (i Item[T]) Key() string { return i.version.Key() }

// Namespace returns metadata.namespace, or "".
func (i Item[T]) Namespace() string { return i.version.Namespace() }

// Name returns metadata.name.
func (i Item[T]) Name() string { return i.version.Name() }

// UID returns metadata.uid.
func (i Item[T]) UID() string { return i.version.UID() }

// ResourceVersion returns metadata.resourceVersion.
func (i Item[T]) ResourceVersion() string { return i.version.ResourceVersion() }

// Labels returns a copy of metadata.labels. It does not decode the object.
func (i Item[T]) Labels() map[string]string { return i.version.Labels() }

// Label returns the value of a label and whether the object has the label. It does not decode the
// object.
func (i Item[T]) Label(key string) (string, bool) { return i.version.Label(key) }

// Size returns the number of bytes that AppendRaw appends.
func (i Item[T]) Size() int { return i.version.Size() }

// AppendRaw appends the object's encoded bytes to dst and returns the extended slice. The encoding
// is Informer.Encoding, and the fields in Options.DropFields are missing. AppendRaw returns an
// error if the stored bytes cannot be unpacked.
func (i Item[T]) AppendRaw(dst []byte) ([]byte, error) { return i.version.AppendRaw(dst) }

// Object returns the decoded object. It is shared: do not modify it unless Options.PrivateCopies is
// set. Object decodes the stored bytes unless the informer still keeps the decoded object, see
// Options.DecodedIdle. If the object cannot be decoded, the error names the object and the cause.
// The error is ErrNotFound for the zero Item.
func (i Item[T]) Object() (T, error) {
	if i.forHandler {
		return decoded[T](i.version, i.reader.handlerValue)
	}
	return decoded[T](i.version, i.reader.object)
}

// Copy decodes the object for the caller alone, who may modify it. Copy returns ErrNotFound for the
// zero Item.
func (i Item[T]) Copy() (T, error) { return decoded[T](i.version, (*store.Object).DecodeCopy) }

// decoded returns the decoded value of a version, or ErrNotFound if o is nil.
func decoded[T Object](o *store.Object, decode func(*store.Object) (any, error)) (T, error) {
	var zero T
	if o == nil {
		return zero, ErrNotFound
	}
	v, err := decode(o)
	if err != nil {
		return zero, err
	}
	return v.(T), nil
}

// Encoding is the encoding of an object's bytes.
type Encoding uint8

const (
	// JSON is the encoding of custom resources and of unstructured objects.
	JSON Encoding = iota + 1
	// Protobuf is the encoding of built-in types: the output of the type's generated Marshal method,
	// without the envelope that kube-apiserver adds to a single object.
	Protobuf
)

// String returns the encoding's name: "json" or "protobuf".
func (e Encoding) String() string { return wire.Encoding(e).String() }

// reader returns decoded objects to callers. It applies the options PrivateCopies and
// DetectMutation.
type reader struct {
	store    *store.Store
	private  bool
	detector *checks.MutationDetector // nil if DetectMutation is off
}

func newReader(opts Options) *reader {
	r := &reader{private: opts.PrivateCopies}
	if opts.DetectMutation || checks.DetectMutations() {
		r.detector = checks.NewMutationDetector(nil)
	}
	return r
}

// detectMutation compares returned objects with their copies until ctx ends. It does nothing if
// DetectMutation is off.
func (r *reader) detectMutation(ctx context.Context) {
	if r.detector != nil {
		r.detector.Run(ctx)
	}
}

// object returns the decoded object to a caller that reads it. The object is shared, unless
// PrivateCopies is set.
func (r *reader) object(o *store.Object) (any, error) {
	return r.applyOptions(o, (*store.Object).Decoded)
}

// handlerValue returns the decoded object to a handler. The object is shared, unless PrivateCopies
// is set. Unlike the method object, it does not make the store keep the decoded object.
func (r *reader) handlerValue(o *store.Object) (any, error) {
	return r.applyOptions(o, func(o *store.Object) (any, error) {
		_, value, err := r.store.Values(&store.Change{Revision: o.Revision(), New: o})
		return value, err
	})
}

func (r *reader) applyOptions(o *store.Object, decode func(*store.Object) (any, error)) (value any, err error) {
	if r.private {
		return o.DecodeCopy()
	}
	if value, err = decode(o); err != nil {
		return nil, err
	}
	if r.detector != nil {
		r.detector.Add(o.Key(), value)
	}
	return value, nil
}

// index returns an index function that calls fn. If DetectMutation is on, the function also
// registers fn's argument with the detector.
func (r *reader) index(fn func(object any) ([]string, error)) func(any) ([]string, error) {
	if r.detector == nil {
		return fn
	}
	return func(object any) ([]string, error) {
		if m, err := meta.Accessor(object); err == nil {
			r.detector.Add(strings.TrimPrefix(m.GetNamespace()+"/"+m.GetName(), "/"), object)
		}
		return fn(object)
	}
}
