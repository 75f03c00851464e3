package weir

import (
	"fmt"
	"reflect"

	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// Index defines the values under which Informer.By finds an object. Create one with ByLabel,
// ByField or ByFunc.
type Index struct {
	label string
	field string
	fn    func(object any) ([]string, error)
	// These fields are set by ByFunc: the type of fn's argument (of), and the identity of the function
	// that ByFunc received (value).
	of    reflect.Type
	value private.Function
}

// ByLabel indexes objects by the value of a label. The informer reads the label from the stored
// bytes and decodes nothing.
func ByLabel(key string) Index { return Index{label: key} }

// ByField indexes objects by the values of a field, such as "spec.nodeName". The informer reads the
// field from the stored bytes and decodes nothing.
func ByField(path string) Index { return Index{field: path} }

// ByFunc indexes objects by the values that fn returns for the decoded object, like client-go's
// IndexFunc. When a caller reads the index, fn runs on that caller's goroutine, for the objects
// that changed since the last read. Therefore fn never delays a WATCH. fn's argument is shared and
// read-only. fn must not read an index by function of the same informer: that would deadlock.
//
// Users of a factory share an index by function if they pass the same Index value, or call ByFunc
// with the same function value: one declared function or one closure. Two closures that are created
// by the same source line are two functions, because they may have captured different variables.
// Two method values are also two functions.
//
// If fn is nil, ByFunc returns the zero Index. AddIndex, NewInformer and Acquire reject it with
// ErrInvalidOptions.
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

// same reports whether two indexes have the same label, the same field, or the same function value.
// For two different functions it returns false, even if they always return equal results.
func (ix Index) same(other Index) bool {
	return ix.label == other.label && ix.field == other.field && ix.of == other.of && ix.value == other.value
}

// AddIndex adds an index. It may be called at any time. For an index by label or field, AddIndex
// blocks until all stored objects are indexed; readers and handlers do not wait. An index by
// function is built when a caller first reads it.
//
// AddIndex returns ErrIndexExists if the informer has an index of that name. It returns
// ErrInvalidOptions for the zero Index, for a field that T does not have, and for an index function
// whose argument has another type than T. Any other error names an object whose stored bytes cannot
// be indexed. AddIndex adds no index if it returns an error.
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
