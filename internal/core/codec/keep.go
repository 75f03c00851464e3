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
	switch k := d.keeper(); {
	case k == nil:
		return true
	case k.check != nil:
		return k.check(v.Elem())
	default:
		return k.keepsFields(v.Elem(), d.typeMeta)
	}
}

// keeper finds out whether encoding preserves values of one type. A nil *keeper means that encoding
// preserves all values of the type.
type keeper struct {
	check  func(v reflect.Value) bool // if it is not nil, it decides alone
	fields []keptField                // of a struct, those whose values encoding may change
	elem   *keeper                    // of the target of a pointer, or of elements
	// Encoding preserves an empty slice or map only if empty is true. If element is true, the type is
	// one of elements. Then decoding returns an empty slice instead of a nil one.
	empty, element bool
}

type keptField struct {
	index int
	of    *keeper
}

// keepers contains the keepers of struct types.
type keepers map[reflect.Type]*keeper

// of returns the keeper of a type. element is true for the type of a slice's or map's elements.
func (all keepers) of(t reflect.Type, element bool) *keeper {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return &keeper{check: func(v reflect.Value) bool { return keepsTime(v.Addr().Interface().(*metav1.Time).Time, time.Second) }}
	case reflect.TypeFor[metav1.MicroTime]():
		return &keeper{check: func(v reflect.Value) bool {
			return keepsTime(v.Addr().Interface().(*metav1.MicroTime).Time, time.Microsecond)
		}}
	case reflect.TypeFor[resource.Quantity]():
		return &keeper{check: func(v reflect.Value) bool { return keepsQuantity(v.Addr().Interface().(*resource.Quantity)) }}
	case reflect.TypeFor[metav1.FieldsV1]():
		return nil
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Uint8, reflect.Float64:
		return nil
	case reflect.Struct:
		return all.ofStruct(t)
	case reflect.Pointer:
		if elem := all.of(t.Elem(), false); elem != nil {
			return &keeper{elem: elem}
		}
		return nil
	case reflect.Slice, reflect.Map:
		k := &keeper{element: element, elem: all.of(t.Elem(), true)}
		isBytes := t.Elem().Kind() == reflect.Uint8
		if k.empty = isBytes || t.Kind() == reflect.Slice && isMessage(t); isBytes && !element {
			return nil
		}
		if t.Elem().Kind() == reflect.Pointer || t.Kind() == reflect.Map && all.of(t.Key(), false) != nil {
			k.elem = never
		}
		return k
	}
	return onlyZero
}

var (
	never    = &keeper{check: func(reflect.Value) bool { return false }} // the encoding is unknown
	onlyZero = &keeper{check: reflect.Value.IsZero}                      // the value is not encoded
)

// ofStruct returns the keeper of a struct type, which may contain itself.
func (all keepers) ofStruct(t reflect.Type) *keeper {
	if k, ok := all[t]; ok {
		return k
	}
	if !isTrusted(t) {
		return never
	}
	k := &keeper{}
	all[t] = k
	for i := range t.NumField() {
		of := onlyZero
		if _, encoded := fieldNumber(t.Field(i)); encoded {
			of = all.of(t.Field(i).Type, false)
		}
		if of != nil {
			k.fields = append(k.fields, keptField{i, of})
		}
	}
	if len(k.fields) == 0 {
		all[t] = nil
	}
	return all[t]
}

// keepsFields reports whether encoding preserves all fields of a struct. It does not check the
// field whose index is aside.
func (k *keeper) keepsFields(v reflect.Value, aside int) bool {
	for _, f := range k.fields {
		if f.index != aside && !f.of.keeps(v.Field(f.index)) {
			return false
		}
	}
	return true
}

// keeps reports whether encoding preserves v.
func (k *keeper) keeps(v reflect.Value) bool {
	if k.check != nil {
		return k.check(v)
	}
	switch v.Kind() {
	case reflect.Struct:
		return k.keepsFields(v, -1)
	case reflect.Pointer:
		return v.IsNil() || k.elem.keeps(v.Elem())
	}
	switch {
	case v.IsNil():
		return !k.element
	case v.Len() == 0:
		return k.empty
	case k.elem == nil:
		return true
	case v.Kind() == reflect.Map:
		return k.keepsEntries(v)
	}
	for i := range v.Len() {
		if !k.elem.keeps(v.Index(i)) {
			return false
		}
	}
	return true
}

func (k *keeper) keepsEntries(v reflect.Value) bool {
	value := reflect.New(v.Type().Elem()).Elem()
	for all := v.MapRange(); all.Next(); {
		if value.SetIterValue(all); !k.elem.keeps(value) {
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
