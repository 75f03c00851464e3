// Package columns computes the columns that kubectl shows: the cells of a Table, as kube-apiserver
// 1.37 computes them. The command weir and the embedded server use it. The columns of built-in
// kinds are in a table of Go values ([Of]), those of custom resources in their
// CustomResourceDefinitions ([Custom]).
//
// Cells are computed from decoded objects of either form: from Go structs, whose fields are found
// by their JSON names, and from the maps of unstructured objects. So the same code reads both, no
// object is converted, and a program that imports this package links the Go types of no API. A
// program without the type of a kind passes an unstructured object.
//
// Built-in kinds without a stable version have only Name and Age. A row depends only on its own
// object. In a list, kube-apiserver also marks the default StorageClass, and sorts FlowSchemas.
package columns

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Set contains the columns of one kind. It is immutable, and its methods are safe for concurrent
// use.
type Set struct {
	columns []column
	healthy func(value) bool // nil: only the conditions of an object count
}

// column is a column of a Table. cell returns a string, an int64, a float64, a bool or nil.
type column struct {
	metav1.TableColumnDefinition
	cell func(o value) any
}

// Of returns the columns of a built-in kind. For any other kind, and for versions of a kind whose
// fields differ from those of its stable version, they are Name and Age.
func Of(gvk schema.GroupVersionKind) *Set {
	kind := gvk.GroupKind().String()
	columns, ok := builtin[kind]
	if !ok || differing[gvk] {
		return &Set{columns: []column{name, age}}
	}
	return &Set{columns: columns, healthy: health[kind]}
}

// differing contains the versions of built-in kinds that have other fields than the stable version.
// kube-apiserver serves them, but kubectl prefers the stable version.
var differing = map[schema.GroupVersionKind]bool{
	// The metrics are in annotations.
	{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}: true,
}

// Definitions returns a copy of the definitions of the columns, in their order. Columns with a
// priority above zero are shown only with -o wide.
func (s *Set) Definitions() []metav1.TableColumnDefinition {
	out := make([]metav1.TableColumnDefinition, len(s.columns))
	for i, c := range s.columns {
		out[i] = c.TableColumnDefinition
	}
	return out
}

// Cells returns the cells of an object, one for each definition. A cell is a string, an int64, a
// float64, a bool, or nil for a missing value. Ages are those at now. The object is a pointer to a
// Go struct, or an unstructured object; Cells only reads it.
func (s *Set) Cells(object any, now time.Time) []any {
	o := valueOf(object, now)
	cells := make([]any, len(s.columns))
	for i, c := range s.columns {
		cells[i] = c.cell(o)
	}
	return cells
}

// Text returns a cell as kubectl prints it, on one line. It keeps other unprintable characters.
func Text(cell any) string {
	switch cell := cell.(type) {
	case nil:
		return ""
	case string:
		if end := strings.IndexAny(cell, "\f\n\r"); end >= 0 {
			return cell[:end] + "..."
		}
		return cell
	}
	return fmt.Sprint(cell)
}

// col returns a column of type string, integer or boolean, according to T.
func col[T string | int64 | bool](name string, cell func(o value) T) column {
	d := metav1.TableColumnDefinition{Name: name, Type: "string"}
	switch any(*new(T)).(type) {
	case int64:
		d.Type = "integer"
	case bool:
		d.Type = "boolean"
	}
	return column{d, func(o value) any { return cell(o) }}
}

// wide returns the column as one that is shown only with -o wide.
func (c column) wide() column {
	c.Priority = 1
	return c
}

// asText returns the column with type string. kube-apiserver declares this type for some columns
// of numbers.
func (c column) asText() column {
	c.Type = "string"
	return c
}

// named returns the column with the format of names.
func (c column) named() column {
	c.Format = "name"
	return c
}

// text returns a column with the text of a field. If that is "", the cell is empty, if given.
func text(name, path string, empty ...string) column {
	return col(name, func(o value) string { return cmp.Or(append([]string{o.at(path).str()}, empty...)...) })
}

// optional returns a column with the text of a field that may be absent. An absent field and an
// empty one differ.
func optional(name, path, absent string) column {
	return col(name, func(o value) string { return o.at(path).or(absent) })
}

// number returns a column with the number in a field.
func number(name, path string) column {
	return col(name, func(o value) int64 { return o.at(path).num() })
}

// count returns a column with the length of a list or map.
func count(name, path string) column {
	return col(name, func(o value) int64 { return int64(o.at(path).len()) })
}

// boolean returns a column with a boolean field.
func boolean(name, path string) column {
	return col(name, func(o value) bool { return o.at(path).is() })
}

// since returns a column with the time since that in a field.
func since(name, path string) column {
	return col(name, func(o value) string { return o.at(path).since() })
}

// sinceOptional returns a column with the time since that in a field that may be absent.
func sinceOptional(name, path, absent string) column {
	return col(name, func(o value) string {
		if f := o.at(path); f.exists() {
			return f.since()
		}
		return absent
	})
}

// joined returns a column with the texts of a list, separated by commas. If field is not empty, the
// texts are those of this field of each element. If there are no texts, the cell is empty.
func joined(name, list, field, empty string) column {
	return col(name, func(o value) string { return cmp.Or(strings.Join(o.at(list).texts(field), ","), empty) })
}
