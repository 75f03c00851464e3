package weir

import (
	"fmt"
	"reflect"

	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Index defines the values under which By finds objects. Create one with ByLabel, ByField or
// ByFunc.
type Index struct {
	label string
	field string
	fn    func(object any) ([]string, error)
	// Of fn: the type of its objects, and the function value from which it was made.
	of    reflect.Type
	value private.Function
}

// ByLabel indexes objects by the value of a label. It reads the label from the bytes and decodes
// nothing.
func ByLabel(key string) Index { return Index{label: key} }

// ByField indexes objects by the values of a field, such as "spec.nodeName". It reads the field
// from the bytes and decodes nothing.
func ByField(path string) Index { return Index{field: path} }

// ByFunc indexes objects by the values that fn returns for the decoded object, like client-go's
// IndexFunc. fn runs when the index is read, on the reader's goroutine, for the objects that
// changed since the last read. It never delays a WATCH. The object is shared and read-only. fn must
// not read an index by function of the same informer: that would deadlock.
//
// Users of a factory share an index by function when both pass the same Index value, or create
// theirs from the same function value: one declared function or one closure. Two closures with the
// same source are two functions, because they may have captured different variables. So are two
// method values.
//
// For a nil function ByFunc returns the zero Index, which AddIndex, NewInformer and Acquire reject
// with ErrInvalidOptions.
func ByFunc[T Object](fn func(T) ([]string, error)) Index {
	if fn == nil {
		return Index{}
	}
	return Index{
		fn:    func(object any) ([]string, error) { return fn(object.(T)) },
		of:    reflect.TypeFor[T](),
		value: private.FunctionOf(fn),
	}
}

// same reports whether two indexes return the same values for every object.
func (ix Index) same(other Index) bool {
	return ix.label == other.label && ix.field == other.field && ix.of == other.of && ix.value == other.value
}

// AddIndex adds an index. It may be called at any time. For an index by label or field, it blocks
// until the index of the stored objects is built; no other caller waits for that. An index by
// function is built when it is first read.
//
// AddIndex returns ErrIndexExists if the name is in use, and ErrInvalidOptions if T has no such
// field, if the index function takes another type, or for the zero Index. Any other error names an
// object from whose bytes the index cannot be read. The index is then not added.
func (i *informer[T]) AddIndex(name string, ix Index) error {
	var made store.Index
	switch {
	case ix.label != "":
		made = store.LabelIndex(ix.label)
	case ix.field != "":
		path, err := wire.CompilePath(i.objectType.encoding, i.objectType.goType, ix.field)
		if err != nil {
			return fmt.Errorf("index %q: %w: %w", name, ErrInvalidOptions, err)
		}
		made = store.FieldIndex(path)
	case ix.fn != nil && ix.of != reflect.TypeFor[T]():
		return fmt.Errorf("index %q: %w: its function takes %s, not %s", name, ErrInvalidOptions, ix.of, reflect.TypeFor[T]())
	case ix.fn != nil:
		made = store.FuncIndex(i.reader.index(ix.fn))
	default:
		return fmt.Errorf("index %q: %w: it names no label, field or function", name, ErrInvalidOptions)
	}
	return i.store.AddIndex(name, made)
}
