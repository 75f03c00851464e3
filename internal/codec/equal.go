package codec

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Equal reports whether two values are equal as equality.Semantic has it, which panics at a field
// that reflection may not read. Equal is false for values of a type with such a field.
func Equal(a, b any) (equal bool) {
	if t := reflect.TypeOf(a); t != nil && !isComparable(t) {
		return false
	}
	defer func() {
		if recover() != nil { // an interface in the values holds such a type
			equal = false
		}
	}()
	return equality.Semantic.DeepEqual(a, b)
}

// comparables caches isComparable by reflect.Type: as many as the program has types.
var comparables sync.Map

// isComparable reports whether equality.Semantic can compare any two values of a type, but for what
// interfaces in them hold.
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
	promoted          // of the value itself nothing; its fields are those of the struct around it
	unexported        // nothing with it, nor with what is in it
)

// comparison is the comparison of two values of a type.
type comparison struct {
	of     reflect.Type
	access access
}

// comparisons are those that have been looked at. A type may be inside itself.
type comparisons map[comparison]struct{}

// allow reports whether values of a type can be compared.
func (cs comparisons) allow(t reflect.Type, a access) bool {
	if _, ok := cs[comparison{t, a}]; ok {
		return true // or where it was met first says otherwise
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
