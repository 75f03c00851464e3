//go:build !weir_safe

package codec

import (
	"maps"
	"reflect"
	"strconv"
	"unsafe"
)

// layoutsKnown reports whether this release of Go lays out values as this package assumes. If it is
// false, Unmarshal decodes all objects. Its value is computed when the process starts.
var layoutsKnown = slicesKnown() && stringsKnown() && mapsKnown() && structsKnown()

// word is the size of a pointer, and of an int.
const word = unsafe.Sizeof(uintptr(0))

// slicesKnown reports whether the memory of a slice is a sliceHeader.
func slicesKnown() bool {
	s := make([]uint32, 3, 5)
	if unsafe.Sizeof(s) != unsafe.Sizeof(sliceHeader{}) {
		return false
	}
	var made []uint32
	*(*sliceHeader)(unsafe.Pointer(&made)) = sliceHeader{unsafe.Pointer(&s[0]), 2, 4}
	return *(*sliceHeader)(unsafe.Pointer(&s)) == sliceHeader{unsafe.Pointer(unsafe.SliceData(s)), 3, 5} &&
		len(made) == 2 && cap(made) == 4 && &made[0] == &s[0]
}

// stringsKnown reports whether the memory of a string consists of a pointer to its bytes and their
// number. It also tests that a value of a named string type can be set as a string.
func stringsKnown() bool {
	type named string
	type header struct {
		data unsafe.Pointer
		len  int
	}
	s := named("layout")
	if unsafe.Sizeof(s) != unsafe.Sizeof(header{}) {
		return false
	}
	var made named
	*(*string)(unsafe.Pointer(&made)) = string(s)
	return *(*header)(unsafe.Pointer(&s)) == header{unsafe.Pointer(unsafe.StringData(string(s))), len(s)} && made == s
}

// mapsKnown reports whether a map is one pointer. It also tests that a map whose keys and values
// have named string types can be set, read and copied as a map of strings.
func mapsKnown() bool {
	type key string
	type value string
	const entries = 20 // more entries than a small map has
	made, m := map[string]string{}, map[key]value(nil)
	*(*map[string]string)(unsafe.Pointer(&m)) = made
	if unsafe.Sizeof(m) != word || *(*unsafe.Pointer)(unsafe.Pointer(&m)) != reflect.ValueOf(made).UnsafePointer() {
		return false
	}
	for i := range entries {
		made[strconv.Itoa(i)] = "value"
	}
	duplicate := maps.Clone(*(*map[string]string)(unsafe.Pointer(&m)))
	for i := range entries {
		if m[key(strconv.Itoa(i))] != "value" {
			return false
		}
		delete(m, key(strconv.Itoa(i)))
	}
	return len(made) == 0 && len(duplicate) == entries
}

// structsKnown reports whether a struct type that reflect creates has the layout that its fields
// describe, with the first field at the address of the struct.
func structsKnown() bool {
	t := reflect.StructOf([]reflect.StructField{
		{Name: "Root", Type: reflect.TypeFor[sliceHeader]()}, {Name: "P0", Type: reflect.TypeFor[[3]string]()},
	})
	at := reflect.New(t).UnsafePointer()
	root, piece := t.Field(0), t.Field(1)
	*(*string)(unsafe.Add(at, piece.Offset)) = "layout"
	return root.Offset == 0 && reflect.NewAt(t, at).Elem().Field(1).Index(0).String() == "layout"
}
