package watchcache

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/wire"
)

// Resource describes what a [Cache] serves. It must not be changed after New.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	ListKind   string // empty: Kind + "List"
	Namespaced bool
	// Custom says that kube-apiserver serves the resource by a CustomResourceDefinition. It then
	// knows application/* in an Accept header, and metadata.namespace in a field selector only if
	// there are namespaces.
	Custom bool
	// Type is the Go struct of the objects. Objects stored as protobuf need it to be served as JSON
	// or as a table, and to be selected by field. nil: objects are served only in the encoding that
	// they are stored in.
	Type reflect.Type
	// Fields are the fields that field selectors may name in addition to metadata.name, and
	// metadata.namespace where kube-apiserver knows it.
	Fields []Field
	// StoredAs is the apiVersion inside stored JSON objects, where it differs from the one they are
	// served with. Empty: it does not differ.
	StoredAs string
	// Columns are the columns of a Table between Name and Age. They need objects to be decoded.
	Columns []Column

	conversion conversion
}

// Field is a field that field selectors may name.
type Field struct {
	Label   string   // name in selectors, for example spec.nodeName
	Paths   []string // see wire.CompilePath; the first that is not empty counts; none: always empty
	Default string   // value of an absent field
	Indexed bool     // it is always indexed; kube-apiserver indexes it as well
}

// GroupVersionKind returns the kind of the objects.
func (r *Resource) GroupVersionKind() schema.GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

func (r *Resource) typeMeta() wire.TypeMeta {
	return wire.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.Kind}
}

func (r *Resource) listTypeMeta() wire.TypeMeta {
	return wire.TypeMeta{APIVersion: r.GroupVersion().String(), Kind: r.ListKind}
}

// selectableField is a compiled Field.
type selectableField struct {
	Field
	paths []*wire.Path
}

func compileFields(enc wire.Encoding, r *Resource) (map[string]*selectableField, error) {
	out := make(map[string]*selectableField, len(r.Fields))
	for _, f := range r.Fields {
		c := &selectableField{Field: f}
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

// value returns the field's value in an object's bytes. It uses scratch and returns it for the next
// call.
func (f *selectableField) value(object []byte, scratch [][]byte) (string, [][]byte, error) {
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
