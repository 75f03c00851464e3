package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filler fills API objects of any type with random values that both encodings can represent.
type filler struct {
	rnd *rand.Rand
	// full fills all fields. If it is false, about half of the fields of a struct are left empty.
	full bool
}

func (f *filler) text() string {
	words := []string{"alpha", "b", "with \"quotes\"", "back\\slash", "<&>", "né", "😀", "line\nbreak", "x.y/z"}
	return fmt.Sprintf("%s-%d", words[f.rnd.IntN(len(words))], f.rnd.IntN(1000))
}

func (f *filler) skip() bool { return !f.full && f.rnd.IntN(2) == 0 }

func (f *filler) fill(v reflect.Value, depth int) {
	if depth > 12 && v.Kind() != reflect.Struct {
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		p.Time = time.Unix(f.rnd.Int64N(2e9), 0).Local()
		return
	case *metav1.MicroTime:
		p.Time = time.Unix(f.rnd.Int64N(2e9), f.rnd.Int64N(1e6)*1000).Local()
		return
	case *metav1.Duration:
		p.Duration = time.Duration(f.rnd.Int64N(1e15))
		return
	case *resource.Quantity:
		*p = resource.MustParse(fmt.Sprintf("%dMi", f.rnd.IntN(5000)))
		return
	case *intstr.IntOrString:
		*p = intstr.FromInt32(int32(f.rnd.IntN(9)) - 4)
		if f.rnd.IntN(2) == 0 {
			*p = intstr.FromString(f.text())
		}
		return
	case *metav1.FieldsV1:
		p.SetRawBytes([]byte(`{"f:a":{}}`))
		return
	case *runtime.RawExtension:
		p.Raw = []byte(`{"x":1}`)
		return
	case *runtime.Object:
		return
	case *metav1.TypeMeta:
		return
	}
	f.fillKind(v, depth)
}

func (f *filler) fillKind(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.rnd.IntN(2) == 0)
	case reflect.Int32:
		v.SetInt(int64(int32(f.rnd.Uint32())))
	case reflect.Int64, reflect.Int:
		v.SetInt(f.rnd.Int64N(2001) - 1000)
	case reflect.Float64:
		v.SetFloat(float64(f.rnd.IntN(1000)) / 8)
	case reflect.Pointer:
		if !f.skip() {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && !f.skip() {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		n := 1 + f.rnd.IntN(2)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + f.rnd.IntN(2) {
			key := reflect.New(v.Type().Key()).Elem()
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth+1)
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	}
}

// apiTypes returns every type of the client-go scheme that has an ObjectMeta and a protobuf
// encoding.
func apiTypes(t testing.TB) map[schema.GroupVersionKind]reflect.Type {
	t.Helper()
	types := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, typ := range apiScheme.AllKnownTypes() {
		if _, ok := typ.FieldByName("ObjectMeta"); ok && gvk.Version != runtime.APIVersionInternal {
			types[gvk] = typ
		}
	}
	if len(types) < 100 {
		t.Fatalf("only %d kinds", len(types))
	}
	return types
}

// fieldPaths appends the JSON paths of a type. leaves receives only the paths that end at a single
// value, and all receives every path.
func fieldPaths(t reflect.Type, prefix string, depth int, leaves, all *[]string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > 9 {
		return
	}
	if prefix != "" {
		*all = append(*all, prefix)
		if textOf(t) != textNone {
			*leaves = append(*leaves, prefix)
			return
		}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map:
		fieldPaths(t.Elem(), prefix+"[*]", depth+1, leaves, all)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || f.Tag.Get("protobuf") == "":
			case name == "" && strings.Contains(options, "inline"):
				fieldPaths(f.Type, prefix, depth+1, leaves, all)
			case name != "":
				fieldPaths(f.Type, strings.TrimPrefix(prefix+"."+name, "."), depth+1, leaves, all)
			}
		}
	}
}

func sortedKinds(types map[schema.GroupVersionKind]reflect.Type) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for k := range types {
		kinds = append(kinds, k)
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	return kinds
}
