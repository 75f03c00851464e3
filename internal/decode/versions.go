package decode

import (
	"reflect"
	"unsafe"
)

// DecodeVersions decodes two versions of an object as [Decoder.Decode] does. It costs less than two
// calls, because the later version mostly becomes a copy of the earlier one. The two values share
// only strings.
func (d *Decoder) DecodeVersions(was, is []byte) (old, fresh any, err error) {
	if d.once.Do(d.compile); d.message != nil {
		s := scratches.Get().(*scratch)
		s.sharing, s.prepare = false, nil
		before, after, ok := d.decodeVersions(s, was, is)
		s.release()
		if ok {
			return reflect.NewAt(d.goType, before).Interface(), reflect.NewAt(d.goType, after).Interface(), nil
		}
	}
	if old, err = d.Decode(was); err == nil {
		fresh, err = d.Decode(is)
	}
	return old, fresh, err
}

// decodeVersions decodes both versions. ok is false if they must be decoded one by one.
func (d *Decoder) decodeVersions(s *scratch, was, is []byte) (before, after unsafe.Pointer, ok bool) {
	s.locating = true
	before, ok = d.decodeLikeOthers(s, was)
	s.locating = false
	if !ok {
		return nil, nil, false
	}
	earlier := original{raw: was, spots: s.spots, image: before}
	if s.knowns[0].plan.sample.ofCopies && len(is) <= maxSize {
		if after, _, ok = d.copyIfAlike(s, is, 0, &earlier); ok {
			return before, after, true
		}
	}
	if after, ok = d.decode(s, is); ok {
		return before, after, true
	}
	return nil, nil, false
}
