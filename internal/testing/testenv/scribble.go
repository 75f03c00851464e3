package testenv

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ScribbleOver changes everything that an object may share with another one: the contents of its
// maps, slices and pointers, and the spare capacity of its slices. Tests use it to check what
// happens if a caller changes a shared object. ScribbleOver does not change the object's own plain
// fields, so its name and version remain. It also does not change unexported fields, such as those
// of a time.Time.
func ScribbleOver(object any) {
	v := reflect.ValueOf(object)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.IsValid() {
		scribble(v, false)
	}
}

// scribble changes the values that v refers to. behind says that v itself is reached through a
// pointer, slice or map; then scribble also changes v.
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

// settableCopy returns a copy of v that reflection can set.
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
