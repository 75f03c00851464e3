package columns

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// value is an object or one of its fields: of a Go struct, or of an unstructured object. v is never
// a pointer or an interface. If the field is absent or nil, v is the zero Value. A field that is
// not a pointer is never absent in a struct, but may be in an unstructured object; so only fields
// that are pointers in Go distinguish absent from empty.
type value struct {
	v   reflect.Value
	row *row
}

// row is what the cells of one object share.
type row struct {
	now time.Time // to compute ages
	pod *pod      // set by the first call of podOf
}

func valueOf(object any, now time.Time) value {
	if u, ok := object.(*unstructured.Unstructured); ok {
		object = u.Object
	}
	return value{row: &row{now: now}}.with(reflect.ValueOf(object))
}

// with returns the value that v contains or points to.
func (f value) with(v reflect.Value) value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return value{v, f.row}
}

// at returns the field at a path of JSON names, separated by dots.
func (f value) at(path string) value {
	for name := range strings.SplitSeq(path, ".") {
		f = f.field(name)
	}
	return f
}

// field returns the field with a JSON name, or the value of a map's key.
func (f value) field(name string) value {
	switch f.v.Kind() {
	case reflect.Map:
		return f.with(f.v.MapIndex(reflect.ValueOf(name).Convert(f.v.Type().Key())))
	case reflect.Struct:
		if index, ok := fieldsOf(f.v.Type())[name]; ok {
			return f.with(f.v.FieldByIndex(index))
		}
	}
	return value{row: f.row}
}

// structs contains the fields of each struct type that was read, by JSON name. The number of API
// types bounds it.
var structs sync.Map // reflect.Type → map[string][]int

func fieldsOf(t reflect.Type) map[string][]int {
	if fields, ok := structs.Load(t); ok {
		return fields.(map[string][]int)
	}
	fields := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Index
		}
	}
	structs.Store(t, fields)
	return fields
}

func (f value) exists() bool { return f.v.IsValid() }

// str returns a text. A quantity or a number is formatted. For any other value, str returns "".
func (f value) str() string {
	switch f.v.Kind() {
	case reflect.String:
		return f.v.String()
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return strconv.FormatInt(f.num(), 10)
	case reflect.Struct:
		switch s := f.v.Interface().(type) { // a copy, because String modifies a quantity
		case resource.Quantity:
			return s.String()
		case intstr.IntOrString:
			return s.String()
		}
	}
	return ""
}

// or returns the text of the field, or absent if the field does not exist.
func (f value) or(absent string) string {
	if !f.exists() {
		return absent
	}
	return f.str()
}

func (f value) num() int64 {
	switch f.v.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return f.v.Int()
	case reflect.Float64:
		return int64(f.v.Float())
	}
	return 0
}

// is returns the value of a boolean.
func (f value) is() bool { return f.v.Kind() == reflect.Bool && f.v.Bool() }

// len returns the length of a list, a map, a string or bytes.
func (f value) len() int {
	switch f.v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return f.v.Len()
	}
	return 0
}

// list returns the elements of a list.
func (f value) list(path string) []value {
	l := f.at(path)
	if l.v.Kind() != reflect.Slice {
		return nil
	}
	out := make([]value, l.v.Len())
	for i := range out {
		out[i] = f.with(l.v.Index(i))
	}
	return out
}

// texts returns the texts of a list. If path is not empty, it is that of a field of each element.
func (f value) texts(path string) []string {
	if f.v.Kind() != reflect.Slice {
		return nil
	}
	out := make([]string, f.v.Len())
	for i := range out {
		e := f.with(f.v.Index(i))
		if path != "" {
			e = e.at(path)
		}
		out[i] = e.str()
	}
	return out
}

// pairs returns the keys and texts of a map.
func (f value) pairs() map[string]string {
	out := map[string]string{}
	if f.v.Kind() == reflect.Map {
		for entries := f.v.MapRange(); entries.Next(); {
			out[entries.Key().String()] = f.with(entries.Value()).str()
		}
	}
	return out
}

// labels returns a map as "key=value,…", or "<none>".
func (f value) labels() string { return labels.FormatLabels(f.pairs()) }

// selector returns a label selector, or nil if there is none.
func (f value) selector() *metav1.LabelSelector {
	if !f.exists() {
		return nil
	}
	s := &metav1.LabelSelector{}
	switch from := f.v.Interface().(type) {
	case metav1.LabelSelector:
		s = &from
	case map[string]any:
		if runtime.DefaultUnstructuredConverter.FromUnstructured(from, s) != nil {
			return nil
		}
	}
	return s
}

// time returns a time, or the zero time.
func (f value) time() (t time.Time) {
	if !f.exists() {
		return t
	}
	switch at := f.v.Interface().(type) {
	case metav1.Time:
		return at.Time
	case metav1.MicroTime:
		return at.Time
	case string:
		t, _ = time.Parse(time.RFC3339, at)
	}
	return t
}

// since returns the time since that in the field.
func (f value) since() string { return sinceTime(f.time(), f.row.now) }

func sinceTime(t, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// condition returns the first element of status.conditions with this type.
func (f value) condition(kind string) value {
	for _, c := range f.list("status.conditions") {
		if c.at("type").str() == kind {
			return c
		}
	}
	return value{row: f.row}
}

// holds reports whether the first condition with this type has status True.
func (f value) holds(kind string) bool { return f.condition(kind).at("status").str() == "True" }

// deleting reports whether the object has a deletionTimestamp.
func (f value) deleting() bool { return f.at("metadata.deletionTimestamp").exists() }
