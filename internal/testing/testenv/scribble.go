package testenv

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ScribbleOver changes an object that must not be changed, to test the consequences. It changes
// everything that the object could share with another object: the contents of its maps, slices and
// pointers, and the spare capacity of its slices. It does not change the object's plain fields, so
// the object's name and version remain.
func ScribbleOver(object any) {
	v := reflect.ValueOf(object)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.IsValid() {
		scribble(v, false)
	}
}

// scribble changes the values that v refers to. It also changes v itself if behind is true, which
// means that v is behind a pointer, slice or map.
func scribble(v reflect.Value, behind bool) {
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		if behind {
			q.Add(resource.MustParse("7"))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem(), true)
		}
	case reflect.Interface:
		scribbled := settableCopy(v.Elem())
		if scribbled.IsValid() {
			scribble(scribbled, behind)
		}
		if behind && scribbled.IsValid() {
			v.Set(scribbled)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i), behind)
			}
		}
	case reflect.Slice:
		all := v.Slice(0, v.Cap())
		for i := range all.Len() {
			scribble(all.Index(i), true)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			elem := settableCopy(v.MapIndex(key))
			scribble(elem, true)
			v.SetMapIndex(key, elem)
		}
		if v.Len() > 0 && v.Type().Key().Kind() == reflect.String {
			v.SetMapIndex(reflect.ValueOf("scribbled").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		}
	default:
		if behind {
			scribbleOnto(v)
		}
	}
}

// settableCopy returns a copy of v that can be set by reflection.
func settableCopy(v reflect.Value) reflect.Value {
	if !v.IsValid() {
		return v
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}

func scribbleOnto(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString("scribbled over " + v.String())
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() ^ 1)
	case v.CanUint():
		v.SetUint(v.Uint() ^ 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 1)
	}
}
