//go:build !weir_safe

package codec

import "unsafe"

// decodeVersions decodes both versions of an object by a template. ok is false if none fits the
// earlier one, or if one of them must be left to Unmarshal.
func (d *decoder) decodeVersions(s *scratch, was, is []byte) (before, after unsafe.Pointer, ok bool) {
	s.locating, s.pointed = true, false
	before, ok = d.decodeLikeOthers(s, was)
	s.locating = false
	if !ok {
		return nil, nil, false
	}
	earlier := prototype{raw: was, locations: s.locations, image: before}
	if s.recentPlans[0].plan.template.ofCopies && !s.pointed && len(is) <= maxSize {
		if after, _, ok = d.copyIfAlike(s, is, 0, &earlier); ok {
			return before, after, true
		}
	}
	after, ok = d.decode(s, is)
	return before, after, ok
}
