package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// nameIs reports whether raw, the text between the quotes of a JSON string, means name.
func nameIs(raw []byte, name string) bool {
	if len(raw) == len(name) {
		return string(raw) == name
	}
	// Escapes only make a string longer.
	if len(raw) < len(name) || bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	return string(unescape(nil, raw)) == name
}

// unescape appends the value of a well-formed JSON string, of which raw is the text between the
// quotes. A lone surrogate becomes U+FFFD, as in encoding/json.
func unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			var r rune
			r, raw = unescapeRune(raw)
			dst = utf8.AppendRune(dst, r)
		default: // quote, backslash, slash
			dst = append(dst, c)
		}
	}
}

// unescapeRune reads the digits after a \u and, if they are the first half of a surrogate pair, the
// second half. It returns the rest of raw.
func unescapeRune(raw []byte) (rune, []byte) {
	r, ok := hexRune(raw)
	if !ok {
		return utf8.RuneError, raw[len(raw):]
	}
	raw = raw[4:]
	if !utf16.IsSurrogate(r) {
		return r, raw
	}
	if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
		if low, ok := hexRune(raw[2:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, raw[6:]
			}
		}
	}
	return utf8.RuneError, raw
}

func hexRune(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, true
}

// stringText returns the value of a JSON string. If the string has escapes, the value is appended
// to scratch; otherwise it aliases the string.
func stringText(scratch, value []byte) (text, newScratch []byte) {
	raw := value[1 : len(value)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, scratch
	}
	n := len(scratch)
	scratch = unescape(scratch, raw)
	return scratch[n:len(scratch):len(scratch)], scratch
}

const hexDigits = "0123456789abcdef"

// shortEscapes are the letters of the control characters that have one.
var shortEscapes = [' ']byte{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// appendString appends s as a JSON string, with the escapes of encoding/json: also of what is
// special in HTML or JavaScript. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' && shortEscapes[r] != 0:
			dst = append(dst, '\\', shortEscapes[r])
		case r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029':
			dst = append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
