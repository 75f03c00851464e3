package watchcache

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/wire"
)

// Resource says what a [Cache] serves. It is not changed after it was given to New.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	ListKind   string // empty: Kind with "List" behind it
	Namespaced bool
	// Type is the Go struct of the objects. Objects that are stored as protobuf need it to be served as JSON or as a table, and to be
	// selected by field. nil: objects are only served in the encoding that they are stored in.
	Type reflect.Type
	// Fields are what field selectors may name besides metadata.name and metadata.namespace.
	Fields []Field
	// StoredAs is the apiVersion inside stored JSON objects where it differs from this one: objects are served with the one of this
	// resource in its place. Empty: it does not differ.
	StoredAs string
	// Columns are what a Table shows between Name and Age. They need objects to be decoded.
	Columns []Column
}

// Field is a field that a field selector may name.
type Field struct {
	Label   string   // as the selector names it, for example spec.nodeName
	Paths   []string // where it is, see wire.CompilePath; the first that is not empty counts. None: it is always empty
	Default string   // what it is when it is absent
}

// GroupVersionKind is the kind of the objects.
func (r *Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

func (r *Resource) typeMeta() wire.TypeMeta {
	return wire.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.Kind}
}

func (r *Resource) listTypeMeta() wire.TypeMeta {
	return wire.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.ListKind}
}

// selectable is a compiled Field.
type selectable struct {
	Field
	paths []*wire.Path
}

func compileFields(enc wire.Encoding, r *Resource) (map[string]*selectable, error) {
	out := make(map[string]*selectable, len(r.Fields))
	for _, f := range r.Fields {
		c := &selectable{Field: f}
		for _, path := range f.Paths {
			p, err := wire.CompilePath(enc, r.Type, strings.TrimPrefix(path, "."))
			if err != nil {
				return nil, fmt.Errorf("watchcache: field %s of %s: %w", f.Label, r.Kind, err)
			}
			c.paths = append(c.paths, p)
		}
		out[f.Label] = c
	}
	return out, nil
}

// value reads the field from an object's bytes. scratch is used and returned for the next call.
func (f *selectable) value(object []byte, scratch [][]byte) (string, [][]byte, error) {
	for _, p := range f.paths {
		var err error
		if scratch, err = p.Append(scratch[:0], object); err != nil {
			return "", scratch, err
		}
		if len(scratch) > 0 && len(scratch[0]) > 0 {
			return string(scratch[0]), scratch, nil
		}
	}
	return f.Default, scratch, nil
}
