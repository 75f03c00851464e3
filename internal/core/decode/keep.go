package decode

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keeps reports whether value, a pointer to the decoder's struct, survives encoding and decoding
// unchanged, but for what TypeMeta returns. That is so if every set field has a place in the
// encoding and all times and quantities have no more precision than it. A nil instead of an empty
// slice or map, and the zone of a time, do not count as changes. Keeps also returns false for types
// that it cannot judge. It is much cheaper than to decode and compare.
func (d *Decoder) Keeps(value any) bool {
	v := reflect.ValueOf(value)
	if v.Type().Elem() != d.goType || v.IsNil() {
		return false
	}
	d.keeperOnce.Do(func() { d.keeper = keepers{}.ofStruct(d.goType, d.typeMeta) })
	return d.keeper.keeps(v.Elem())
}

// keeper reports whether encoding loses nothing of v. A nil keeper means that the type cannot lose
// anything.
type keeper func(v reflect.Value) bool

func (k keeper) keeps(v reflect.Value) bool { return k == nil || k(v) }

// keepers are the keepers of a type and of all types in it. A type may be inside itself.
type keepers map[reflect.Type]*keeperOf

type keeperOf struct {
	keeper keeper
	ready  bool
}

func (ks keepers) of(t reflect.Type) keeper {
	if of, ok := ks[t]; ok {
		if of.ready {
			return of.keeper
		}
		return func(v reflect.Value) bool { return of.keeper.keeps(v) } // it is inside itself
	}
	of := &keeperOf{}
	ks[t] = of
	of.keeper, of.ready = ks.make(t), true
	return of.keeper
}

func (ks keepers) make(t reflect.Type) keeper {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return func(v reflect.Value) bool { return v.Addr().Interface().(*metav1.Time).Nanosecond() == 0 }
	case reflect.TypeFor[metav1.MicroTime]():
		return func(v reflect.Value) bool { return v.Addr().Interface().(*metav1.MicroTime).Nanosecond()%1000 == 0 }
	case reflect.TypeFor[resource.Quantity]():
		return func(v reflect.Value) bool { return keepsQuantity(v.Addr().Interface().(*resource.Quantity)) }
	case reflect.TypeFor[metav1.FieldsV1]():
		return nil
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Uint8, reflect.Float64:
		return nil
	case reflect.Struct:
		return ks.ofStruct(t, -1)
	case reflect.Pointer:
		return ks.ofPointer(t)
	case reflect.Slice:
		return ks.ofSlice(t)
	case reflect.Map:
		return ks.ofMap(t)
	}
	return reflect.Value.IsZero
}

// keepsQuantity reports whether a quantity is an integer or a number of thousandths, which its text
// preserves. Other quantities may be preserved too.
func keepsQuantity(q *resource.Quantity) bool {
	if _, ok := q.AsInt64(); ok {
		return true
	}
	return q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), q.Format)) == 0
}

// ofStruct returns the keeper of a struct. It checks the fields that may lose something, but for
// the one with the index aside. A field without a number is not encoded, so it must be empty.
func (ks keepers) ofStruct(t reflect.Type, aside int) keeper {
	if !isTrusted(t) {
		return func(reflect.Value) bool { return false }
	}
	type member struct {
		index int
		keeper
	}
	var members []member
	for i := range t.NumField() {
		if i == aside {
			continue
		}
		k := keeper(reflect.Value.IsZero)
		if _, ok := FieldNumber(t.Field(i)); ok {
			k = ks.of(t.Field(i).Type)
		}
		if k != nil {
			members = append(members, member{i, k})
		}
	}
	if len(members) == 0 {
		return nil
	}
	return func(v reflect.Value) bool {
		for _, m := range members {
			if !m.keeper(v.Field(m.index)) {
				return false
			}
		}
		return true
	}
}

func (ks keepers) ofPointer(t reflect.Type) keeper {
	inside := ks.of(t.Elem())
	if inside == nil {
		return nil
	}
	return func(v reflect.Value) bool { return v.IsNil() || inside(v.Elem()) }
}

func (ks keepers) ofSlice(t reflect.Type) keeper {
	if t.Elem().Kind() == reflect.Pointer {
		return func(v reflect.Value) bool { return v.Len() == 0 } // one of them may be nil
	}
	inside := ks.of(t.Elem())
	if inside == nil {
		return nil
	}
	return func(v reflect.Value) bool {
		for i := range v.Len() {
			if !inside(v.Index(i)) {
				return false
			}
		}
		return true
	}
}

func (ks keepers) ofMap(t reflect.Type) keeper {
	inside := ks.of(t.Elem())
	if ks.of(t.Key()) != nil || t.Elem().Kind() == reflect.Pointer {
		return func(v reflect.Value) bool { return v.Len() == 0 }
	}
	if inside == nil {
		return nil
	}
	return func(v reflect.Value) bool {
		if v.Len() == 0 {
			return true
		}
		value := reflect.New(t.Elem()).Elem()
		for all := v.MapRange(); all.Next(); {
			if value.SetIterValue(all); !inside(value) {
				return false
			}
		}
		return true
	}
}
