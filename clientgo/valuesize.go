package clientgo

import "reflect"

// valueSize estimates the bytes that a value refers to. It does not follow private fields: the
// whole program may share what they refer to, for example in a protobuf message. Values that are
// referred to twice count twice. If the sum exceeds most, or the value is nested deeper than
// maxValueDepth, the result is only larger than most, so the walk also ends for values that refer
// to themselves.
func valueSize(value any, most int) int {
	s := sizer{most: most}
	s.add(reflect.ValueOf(&value).Elem(), maxValueDepth)
	return s.sum
}

// maxValueDepth is far more than the depth of API objects.
const maxValueDepth = 200

// mapEntry is the approximate size of a map entry without the key and the value.
const mapEntry = 8

type sizer struct{ sum, most int }

// add adds the bytes that v refers to. v itself is part of its container.
func (s *sizer) add(v reflect.Value, depth int) {
	if depth == 0 {
		s.sum = max(s.sum, s.most+1)
		return
	}
	switch v.Kind() {
	case reflect.String:
		s.sum += v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			s.sum += int(v.Elem().Type().Size())
			s.add(v.Elem(), depth-1)
		}
	case reflect.Slice:
		s.sum += v.Cap() * int(v.Type().Elem().Size())
		s.addItems(v, depth)
	case reflect.Array:
		s.addItems(v, depth)
	case reflect.Struct:
		for i := 0; i < v.NumField() && s.sum <= s.most; i++ {
			if f := v.Field(i); f.CanInterface() { // it is exported
				s.add(f, depth-1)
			}
		}
	case reflect.Map:
		t := v.Type()
		s.sum += v.Len() * (int(t.Key().Size()+t.Elem().Size()) + mapEntry)
		for entries := v.MapRange(); s.sum <= s.most && entries.Next(); {
			s.add(entries.Key(), depth-1)
			s.add(entries.Value(), depth-1)
		}
	}
}

// addItems adds the bytes that the items of a slice or an array refer to.
func (s *sizer) addItems(v reflect.Value, depth int) {
	if kind := v.Type().Elem().Kind(); kind >= reflect.Bool && kind <= reflect.Complex128 {
		return // they refer to nothing
	}
	for i := 0; i < v.Len() && s.sum <= s.most; i++ {
		s.add(v.Index(i), depth-1)
	}
}
