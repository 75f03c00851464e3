package codec

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Equal reports whether two values are equal by equality.Semantic, which panics at a field that
// reflection may not read. Equal is false for values of a type with such a field.
func Equal(a, b any) (equal bool) {
	if t := reflect.TypeOf(a); t != nil && !isComparable(t) {
		return false
	}
	defer func() {
		if recover() != nil { // an interface in the values has such a type
			equal = false
		}
	}()
	return equality.Semantic.DeepEqual(a, b)
}

// comparables caches isComparable by reflect.Type. The program's types limit its size.
var comparables sync.Map

// isComparable reports whether equality.Semantic can compare any two values of a type, except for
// the contents of interfaces.
func isComparable(t reflect.Type) bool {
	if known, ok := comparables.Load(t); ok {
		return known.(bool)
	}
	ok := comparisons{}.allow(t, exported)
	comparables.Store(t, ok)
	return ok
}

// access is what reflection may do with a value.
type access uint8

const (
	exported   access = iota
	promoted          // none of the value itself; its fields belong to the surrounding struct
	unexported        // none of it, nor of its contents
)

// comparison is the comparison of two values of a type.
type comparison struct {
	of     reflect.Type
	access access
}

// comparisons are those already checked. A type may contain itself.
type comparisons map[comparison]struct{}

// allow reports whether values of a type can be compared.
func (cs comparisons) allow(t reflect.Type, a access) bool {
	if _, ok := cs[comparison{t, a}]; ok {
		return true // otherwise its first occurrence returns false
	}
	cs[comparison{t, a}] = struct{}{}
	if _, ok := equality.Semantic.Equalities[t]; ok {
		return a == exported // it calls a function with them
	}
	switch t.Kind() {
	case reflect.Struct:
		return cs.allowFields(t, a)
	case reflect.Pointer:
		return cs.allow(t.Elem(), a)
	case reflect.Slice, reflect.Map:
		return cs.allow(t.Elem(), a.inside())
	case reflect.Array:
		return t.Len() == 0 || cs.allow(t.Elem(), a.inside())
	case reflect.Func:
		return true // two are equal if both are nil
	}
	return a == exported
}

func (cs comparisons) allowFields(t reflect.Type, a access) bool {
	for i := range t.NumField() {
		if !cs.allow(t.Field(i).Type, a.field(t.Field(i))) {
			return false
		}
	}
	return true
}

// inside returns the access to the elements of a value.
func (a access) inside() access {
	if a == promoted {
		return unexported
	}
	return a
}

// field returns the access to a field of a struct.
func (a access) field(f reflect.StructField) access {
	switch {
	case a == unexported || !f.IsExported() && !f.Anonymous:
		return unexported
	case !f.IsExported():
		return promoted
	}
	return exported
}
