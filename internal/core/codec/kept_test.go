package codec

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestKeptPartsKeepNothingElse checks, for each way to decode, that a program can keep some parts
// of a value without keeping the whole value in memory. These parts are: texts; maps; copies of
// owner references, numbers and times; pointers to numbers or times in the value's structs.
// Handlers often keep such parts of each object while the object exists.
func TestKeptPartsKeepNothingElse(t *testing.T) {
	var kept keptParts
	var gone []func() error
	eachRandom(t, 1, func(typ reflect.Type, _ protoMessage, raw []byte) { gone = append(gone, kept.of(t, typ, raw)...) })
	gone = append(gone, kept.of(t, reflect.TypeFor[*corev1.Pod](), pod(*podsim.New(1, 1).Pod(0)))...)
	if len(kept.pointers) < 1_000 || len(kept.texts) < 10_000 {
		t.Fatalf("only %d pointers and %d texts were kept", len(kept.pointers), len(kept.texts))
	}
	runtime.GC()
	failed := 0
	for _, check := range gone {
		if err := check(); err != nil {
			if failed++; failed <= 5 {
				t.Error(err)
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d values are kept", failed, len(gone))
	}
	runtime.KeepAlive(kept)
}

// keptParts contains the parts of values that the test keeps.
type keptParts struct {
	texts    []string
	pointers []any // pointers to values that contain no pointers, and maps
}

// of decodes a value in all ways and keeps parts of it. It returns functions that check that the
// values were freed.
func (k *keptParts) of(t *testing.T, typ reflect.Type, raw []byte) (gone []func() error) {
	t.Helper()
	d := decoderFor(typ)
	for way := range 5 { // decoded by fields, then into a template, then as a copy of it
		a, err := d.private(raw)
		b, c, other := d.versions(raw, raw)
		shared, another := d.shared(raw)
		if err != nil || other != nil || another != nil {
			t.Fatal(err, other, another)
		}
		for i, value := range []any{a, b, c, shared} {
			k.keep(reflect.ValueOf(value).Elem(), true)
			at := weak.Make((*byte)(reflect.ValueOf(value).UnsafePointer()))
			gone = append(gone, func() error {
				if at.Value() != nil {
					return fmt.Errorf("%s, decoded in way %d, value %d, is kept", typ, way, i)
				}
				return nil
			})
		}
	}
	return gone
}

// keep keeps the parts of v that a program may keep. direct is true if v is part of the value's own
// memory, and not of memory to which a slice or pointer refers.
func (k *keptParts) keep(v reflect.Value, direct bool) {
	switch v.Kind() {
	case reflect.String:
		k.texts = append(k.texts, v.String())
	case reflect.Map:
		k.pointers = append(k.pointers, v.Interface())
	case reflect.Struct:
		direct = direct || v.Type() == reflect.TypeFor[metav1.OwnerReference]()
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				k.keep(v.Field(i), direct)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			k.pointers = append(k.pointers, v.Interface())
			return
		}
		for i := range v.Len() {
			k.keep(v.Index(i), false)
		}
	case reflect.Pointer:
		switch {
		case v.IsNil():
		case !holdsNoOthers(v.Type().Elem()):
			k.keep(v.Elem(), false)
		case direct:
			k.pointers = append(k.pointers, v.Interface())
		}
	}
}

// holdsNoOthers reports whether a type is a text, number or time, so that a pointer to its value
// keeps nothing else in memory.
func holdsNoOthers(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return false
	}
	return true
}
