package weir

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/weirproject/weir/internal/funcvalue"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// Index says by which values objects are found with By. Make one with ByLabel, ByField or ByFunc.
type Index struct {
	label string
	field string
	fn    func(object any) ([]string, error)
	// Of fn: the type of the objects that it takes, and the function value that it was made of.
	of    reflect.Type
	value unsafe.Pointer
}

// ByLabel indexes by the value of a label. It is kept from the bytes; nothing is decoded.
func ByLabel(key string) Index { return Index{label: key} }

// ByField indexes by the values of a field, such as "spec.nodeName". It is kept from the bytes;
// nothing is decoded.
func ByField(path string) Index { return Index{field: path} }

// ByFunc indexes by what a function says of a decoded object: client-go's IndexFunc. It runs when
// the index is read, on the reader's goroutine, for what has changed since; never in the way of a
// WATCH. The object is shared and read-only. The function must not read an index by function of the
// informer: it would wait for itself.
//
// Users of a factory share an index by a function when both have the same Index value, or made
// theirs of the same function value: one declared function, or one closure. Two closures of one
// text are two functions, since they may have captured different variables, and so are two method
// values.
//
// For a nil function it returns the zero Index, which AddIndex, NewInformer and Use refuse with
// ErrOptions.
func ByFunc[T Object](fn func(T) ([]string, error)) Index {
	if fn == nil {
		return Index{}
	}
	return Index{
		fn:    func(object any) ([]string, error) { return fn(object.(T)) },
		of:    reflect.TypeFor[T](),
		value: funcvalue.Pointer(fn),
	}
}

// same reports whether two indexes give the same values for every object.
func (ix Index) same(other Index) bool {
	return ix.label == other.label && ix.field == other.field && ix.of == other.of && ix.value == other.value
}

// AddIndex adds an index. It may be called at any time. It blocks while an index by label or field
// is built from what is held; nobody else waits for that. An index by function is built when it is
// read first.
//
// The error is ErrIndexExists if the name is taken, or ErrOptions if T has no such field, or the
// index has a function of another type or is the zero Index. Otherwise it names an object from
// whose bytes the index cannot be read. The index is not added then.
func (i *Informer[T]) AddIndex(name string, ix Index) error {
	var made store.Index
	switch {
	case ix.label != "":
		made = store.LabelIndex(ix.label)
	case ix.field != "":
		path, err := wire.CompilePath(i.objectType.encoding, i.objectType.goType, ix.field)
		if err != nil {
			return fmt.Errorf("index %q: %w: %w", name, ErrOptions, err)
		}
		made = store.FieldIndex(path)
	case ix.fn != nil && ix.of != reflect.TypeFor[T]():
		return fmt.Errorf("index %q: %w: its function takes %s, not %s", name, ErrOptions, ix.of, reflect.TypeFor[T]())
	case ix.fn != nil:
		made = store.FuncIndex(i.reader.index(ix.fn))
	default:
		return fmt.Errorf("index %q: %w: it names no label, field or function", name, ErrOptions)
	}
	return i.store.AddIndex(name, made)
}
