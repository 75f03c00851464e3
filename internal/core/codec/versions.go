//go:build !weir_safe

package codec

import "unsafe"

// decodeVersions decodes two versions of an object with a template. ok is false if no template fits
// the earlier version, or if Unmarshal must decode one of the versions.
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
