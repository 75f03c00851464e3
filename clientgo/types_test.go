package clientgo_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/weirproject/weir/clientgo"
)

// TestNoInternalTypes checks that users can name the type of each field of Options.
func TestNoInternalTypes(t *testing.T) {
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if strings.Contains(typ.PkgPath(), "weir/internal/") {
			t.Errorf("%v can be reached", typ)
		}
		if typ.Kind() == reflect.Struct && strings.Contains(typ.PkgPath(), "weirproject/weir") {
			for i := range typ.NumField() {
				if f := typ.Field(i); f.IsExported() {
					walk(f.Type)
				}
			}
		}
	}
	walk(reflect.TypeFor[clientgo.Options]())
}
