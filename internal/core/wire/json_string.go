package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

func isString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

func isNull(v []byte) bool { return string(v) == "null" }

// nameIs reports whether the text of a JSON string equals name. raw is the part between the quotes,
// which may contain escapes.
func nameIs(raw []byte, name string) bool {
	if len(raw) == len(name) {
		return string(raw) == name
	}
	// Each escape is longer than its character, so raw can contain one only if it is longer than name.
	if len(raw) < len(name) || bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	return string(unescape(nil, raw)) == name
}

// stringText returns the text of a JSON string. The text aliases value if value has no escapes.
// Otherwise stringText appends the text to scratch, and returns the longer scratch.
func stringText(scratch, value []byte) (text, newScratch []byte) {
	return textOfRaw(scratch, value[1:len(value)-1])
}

// textOfRaw does what stringText does. raw is the part of the string between the quotes.
func textOfRaw(scratch, raw []byte) (text, newScratch []byte) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, scratch
	}
	n := len(scratch)
	scratch = unescape(scratch, raw)
	return scratch[n:len(scratch):len(scratch)], scratch
}

// stringOrNull returns the text of a JSON string, or "" for null. It returns false for any other
// value.
func stringOrNull(v []byte) (string, bool) {
	if !isString(v) {
		return "", isNull(v)
	}
	text, _ := stringText(nil, v)
	return string(text), true
}

// unescape appends the text of a well-formed JSON string. raw is the part between the quotes. A
// lone surrogate becomes U+FFFD, as in encoding/json.
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
			r := hexRune(raw)
			raw = raw[min(4, len(raw)):]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low = hexRune(raw[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			// DecodeRune returned U+FFFD for a lone surrogate; AppendRune writes U+FFFD for -1
			dst = utf8.AppendRune(dst, r)
		default: // quote, backslash, slash
			dst = append(dst, c)
		}
	}
}

// hexRune returns the value of the four hexadecimal digits at the start of b, or -1.
func hexRune(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		if r = r<<4 | hexDigit(c); r < 0 {
			return -1
		}
	}
	return r
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|' ' && c|' ' <= 'f':
		return rune(c|' '-'a') + 10
	}
	return -1
}

// marshalJSON returns v as JSON, with the escapes that encoding/json writes for characters that are
// special in HTML or JavaScript. v must be a value that encoding/json can always encode, such as a
// string. Bytes that are not UTF-8 become U+FFFD.
func marshalJSON(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}

// comma appends a comma, except before the first member. The argument was is the length that dst
// had before the first member.
func comma(dst []byte, was int) []byte {
	if len(dst) > was {
		dst = append(dst, ',')
	}
	return dst
}
