package codec

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keeps reports whether encoding and decoding preserve value, except for its TypeMeta, so that
// reflect.DeepEqual finds no difference. They do if every field with a value is encoded, no slice
// or map is empty without being nil, all times are local and as precise as the encoding, and all
// quantities are canonical. Only the texts that quantities cache may differ. keeps also returns
// false for types that it cannot judge. It costs less than a tenth of decoding and comparing. value
// must be a pointer to a struct.
func (d *decoder) keeps(value any) bool {
	v := reflect.ValueOf(value)
	if v.Type().Elem() != d.goType || v.IsNil() {
		return false
	}
	return d.lossy().keepsFields(v.Elem(), d.typeMeta)
}

// lossy contains, for each struct type, the fields whose values may change when they are encoded.
// It has entries for one struct type and for each struct type inside it.
type lossy map[reflect.Type][]lossyField

type lossyField struct {
	index   int  // -1 means that the struct's encoding is unknown
	encoded bool // false means that the field must be empty, because it is not encoded
}

func lossyOf(t reflect.Type) lossy {
	l := lossy{}
	l.add(t)
	return l
}

// add adds a struct type, and reports whether encoding may change its values. A struct may contain
// itself.
func (l lossy) add(t reflect.Type) bool {
	if fields, ok := l[t]; ok {
		return fields == nil || len(fields) > 0
	}
	l[t] = nil
	fields := []lossyField{}
	if !isTrusted(t) {
		l[t] = []lossyField{{index: -1}}
		return true
	}
	for i := range t.NumField() {
		if _, encoded := fieldNumber(t.Field(i)); !encoded || l.mayChange(t.Field(i).Type) {
			fields = append(fields, lossyField{i, encoded})
		}
	}
	l[t] = fields
	return len(fields) > 0
}

// mayChange reports whether encoding may change values of a type.
func (l lossy) mayChange(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[resource.Quantity]():
		return true
	case reflect.TypeFor[metav1.FieldsV1]():
		return false
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Uint8, reflect.Float64:
		return false
	case reflect.Struct:
		return l.add(t)
	case reflect.Pointer:
		return l.mayChange(t.Elem())
	case reflect.Slice: // an empty one becomes nil, unless it consists of bytes
		return l.mayChange(t.Elem()) || t.Elem().Kind() != reflect.Uint8
	case reflect.Map:
		l.mayChange(t.Elem()) // adds the type
	}
	return true
}

// keepsFields reports whether encoding preserves all fields of a struct. It does not check the
// field whose index is aside.
func (l lossy) keepsFields(v reflect.Value, aside int) bool {
	for _, f := range l[v.Type()] {
		switch {
		case f.index < 0:
			return false
		case f.index == aside:
		case f.encoded && !l.keeps(v.Field(f.index)), !f.encoded && !v.Field(f.index).IsZero():
			return false
		}
	}
	return true
}

// keeps reports whether encoding preserves v. The type of v must be one that encoding may change.
func (l lossy) keeps(v reflect.Value) bool {
	switch t := v.Type(); t {
	case reflect.TypeFor[metav1.Time]():
		return keepsTime(v.Addr().Interface().(*metav1.Time).Time, time.Second)
	case reflect.TypeFor[metav1.MicroTime]():
		return keepsTime(v.Addr().Interface().(*metav1.MicroTime).Time, time.Microsecond)
	case reflect.TypeFor[resource.Quantity]():
		return keepsQuantity(v.Addr().Interface().(*resource.Quantity))
	}
	switch v.Kind() {
	case reflect.Struct:
		return l.keepsFields(v, -1)
	case reflect.Pointer:
		return v.IsNil() || l.keeps(v.Elem())
	case reflect.Slice:
		if v.Len() == 0 {
			return v.IsNil() || isMessage(v.Type())
		}
		return v.Type().Elem().Kind() != reflect.Pointer && l.keepsElements(v)
	case reflect.Map:
		return v.IsNil() || v.Len() > 0 && v.Type().Elem().Kind() != reflect.Pointer && !l.mayChange(v.Type().Key()) && l.keepsEntries(v)
	}
	return v.IsZero()
}

func (l lossy) keepsElements(v reflect.Value) bool {
	if elem := v.Type().Elem(); elem.Kind() != reflect.Slice && !l.mayChange(elem) {
		return true
	}
	for i := range v.Len() {
		if !l.keepsElement(v.Index(i)) {
			return false
		}
	}
	return true
}

// keepsElement reports whether encoding preserves an element of a slice, or a value of a map. If it
// is a nil slice, decoding returns an empty one.
func (l lossy) keepsElement(v reflect.Value) bool {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return false
	}
	return !l.mayChange(v.Type()) || l.keeps(v)
}

func (l lossy) keepsEntries(v reflect.Value) bool {
	elem := v.Type().Elem()
	if elem.Kind() != reflect.Slice && !l.mayChange(elem) {
		return true
	}
	value := reflect.New(elem).Elem()
	for all := v.MapRange(); all.Next(); {
		if value.SetIterValue(all); !l.keepsElement(value) {
			return false
		}
	}
	return true
}

// keepsTime reports whether a time is as decoding returns it: zero, or local with the given
// precision.
func keepsTime(t time.Time, precision time.Duration) bool {
	return t == time.Time{} || t == time.Unix(t.Unix(), int64(time.Duration(t.Nanosecond()).Truncate(precision)))
}

// keepsQuantity reports whether decoding a quantity's canonical text returns the same quantity. It
// returns false for a quantity that was written in another form.
func keepsQuantity(q *resource.Quantity) bool {
	own := *q // String caches the text in the quantity
	parsed, err := resource.ParseQuantity(own.String())
	_ = parsed.String()
	return err == nil && (parsed == own || reflect.DeepEqual(parsed, own)) // large ones have pointers
}
