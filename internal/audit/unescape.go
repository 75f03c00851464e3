package audit

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape appends the text of a string whose escapes are as JSON has them. An escape that is none
// is false.
func unescape(dst, raw []byte) ([]byte, bool) {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...), true
		}
		dst = append(dst, raw[:i]...)
		raw = raw[i+1:]
		if len(raw) == 0 {
			return dst, false
		}
		if raw[0] == 'u' {
			r, n := unicode(raw)
			if n == 0 {
				return dst, false
			}
			dst, raw = utf8.AppendRune(dst, r), raw[n:]
			continue
		}
		c, ok := plain(raw[0])
		if !ok {
			return dst, false
		}
		dst, raw = append(dst, c), raw[1:]
	}
}

// plain returns the byte that an escape of one letter stands for.
func plain(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

// unicode returns the character of an escape that starts at its u, and how long that is: 0 if it is
// malformed. The second half of a pair is part of it.
func unicode(raw []byte) (rune, int) {
	r, ok := hex4(raw)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 5
	}
	if len(raw) > 6 && raw[5] == '\\' && raw[6] == 'u' {
		if low, ok := hex4(raw[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 11
			}
		}
	}
	return utf8.RuneError, 5
}

// hex4 reads the four digits behind a u.
func hex4(raw []byte) (rune, bool) {
	if len(raw) < 5 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[1:5]), 16, 16)
	return rune(n), err == nil
}
