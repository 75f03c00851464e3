package codec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestAppend appends to the slices of decoded values. That must not overwrite other parts of a
// value, although all its slices share one allocation.
func TestAppend(t *testing.T) {
	slices := 0
	eachRandom(t, 1, func(typ reflect.Type, _ protoMessage, raw []byte) { slices += appends(t, decoderFor(typ), raw) })
	slices += appends(t, decoderFor(reflect.TypeFor[*corev1.Pod]()), pod(*podsim.New(1, 1).Pod(0)))
	if slices < 10_000 {
		t.Errorf("only %d slices were appended to", slices)
	}
}

func appends(t *testing.T, d *decoder, raw []byte) (slices int) {
	t.Helper()
	want := reflect.New(d.goType).Interface().(protoMessage)
	check.NoError(t, want.Unmarshal(raw))
	for range 4 { // decoded by fields, then into a template, then as a copy of it
		a, err := d.private(raw)
		b, c, other := d.versions(raw, raw)
		if err != nil || other != nil {
			t.Fatal(err, other)
		}
		for _, value := range []any{a, b, c} {
			slices += appendTo(reflect.ValueOf(value))
		}
		for which, value := range []any{a, b, c} {
			if !reflect.DeepEqual(value, want) {
				t.Fatalf("%s: value %d has changed", d.goType, which)
			}
		}
	}
	return slices
}

// appendTo appends to each slice in v and returns the number of slices. Each slice must be full, so
// that append copies it.
func appendTo(v reflect.Value) (slices int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return appendTo(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				slices += appendTo(v.Field(i))
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			slices += appendTo(v.MapIndex(key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			slices += appendTo(v.Index(i))
		}
		if v.Len() == 0 {
			return slices
		}
		reflect.Append(v, v.Index(0))
		slices++
	}
	return slices
}
