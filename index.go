package weir

import (
	"fmt"

	"github.com/weirproject/weir/store"
	"github.com/weirproject/weir/wire"
)

// Index says by which values objects are found with By. Make one with ByLabel, ByField or ByFunc.
type Index struct {
	label string
	field string
	fn    func(object any) ([]string, error)
}

// ByLabel indexes by the value of a label. It is kept from the bytes; nothing is decoded.
func ByLabel(key string) Index { return Index{label: key} }

// ByField indexes by the values of a field, such as "spec.nodeName". It is kept from the bytes; nothing is decoded.
func ByField(path string) Index { return Index{field: path} }

// ByFunc indexes by what a function says of a decoded object: client-go's IndexFunc. It runs when the index is read, on
// the reader's goroutine, for what has changed since; never in the way of a WATCH. The object is shared and read-only.
func ByFunc[T Object](fn func(T) ([]string, error)) Index {
	return Index{fn: func(object any) ([]string, error) { return fn(object.(T)) }}
}

// AddIndex adds an index, at any time. ErrIndexExists if the name is taken, ErrOptions if T has no such field or the
// function is one of another type.
func (i *Informer[T]) AddIndex(name string, ix Index) error {
	var made store.Index
	switch {
	case ix.label != "":
		made = store.LabelIndex(ix.label)
	case ix.field != "":
		path, err := wire.CompilePath(i.kind.encoding, i.kind.goType, ix.field)
		if err != nil {
			return fmt.Errorf("index %q: %w: %w", name, ErrOptions, err)
		}
		made = store.FieldIndex(path)
	case ix.fn != nil:
		made = store.FuncIndex(ix.fn)
	default:
		return fmt.Errorf("index %q: %w: it names no label, field or function", name, ErrOptions)
	}
	return i.store.AddIndex(name, made)
}
