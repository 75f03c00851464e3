package audit

import "bytes"

// scanner steps through the JSON of one line. It finds where values end and does not check what is
// inside those that nobody reads.
type scanner struct {
	b []byte
	i int
}

// peek skips white space and returns the byte behind it, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take skips white space and c, and reports whether c was there.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.i++
	return true
}

// text returns what stands between the quotes of a string, escapes as they are.
func (s *scanner) text() (raw []byte, ok bool) {
	if !s.take('"') {
		return nil, false
	}
	from := s.i
	for {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			return nil, false
		}
		s.i += n + 1
		if end := s.i - 1; !escaped(s.b[from:end]) {
			return s.b[from:end], true
		}
	}
}

// escaped reports whether a quote behind b belongs to an escape: b ends in an odd number of
// backslashes.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// skip skips a value.
func (s *scanner) skip() bool {
	switch s.peek() {
	case '"':
		_, ok := s.text()
		return ok
	case '{', '[':
		return s.skipNested()
	}
	from := s.i
	for s.i < len(s.b) && literal(s.b[s.i]) {
		s.i++
	}
	return s.i > from
}

// skipNested skips an object or a list, however deep, without recursion.
func (s *scanner) skipNested() bool {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			if _, ok := s.text(); !ok {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return true
		}
	}
	return false
}

// literal reports whether c can be in a number, true, false or null.
func literal(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// members calls member with the name of each member of an object, at its value, which member must
// read. It returns false if member does or the text is no object.
func (s *scanner) members(member func(name []byte) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		name, ok := s.text()
		if !ok || !s.take(':') || !member(name) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}
