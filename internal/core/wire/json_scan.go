package wire

import (
	"encoding/binary"
	"math/bits"
)

// scanResult is the state of a scan, or how the scan ended.
type scanResult uint8

const (
	scanOn   scanResult = iota // the scan has not ended
	scanDone                   // the value is complete
	scanMore                   // the text ends inside the value
	scanBad
	scanDeep // the value is nested deeper than MaxDepth
)

var scanProblems = [...]string{scanBad: "not JSON", scanDeep: "nested too deep"}

// span is a range of bytes. The zero value means that the part does not exist, because no member of
// a JSON text and no field of a message ends at 0.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// cover sets the end of s to the argument to. If s is the zero value, cover also sets its start to
// the argument from.
func (s *span) cover(from, to int) {
	if s.to == 0 {
		s.from = from
	}
	s.to = to
}

// scanValue checks the JSON value at b[i:]. depth is the number of objects and arrays around the
// value. scanValue returns the index after the value, or the index at which the scan stopped.
func scanValue(b []byte, i, depth int) (int, scanResult) {
	if i >= len(b) {
		return i, scanMore
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i+1)
	case '{', '[':
		return scanContainer(b, i, depth)
	case 't':
		return scanLiteral(b, i, "true")
	case 'f':
		return scanLiteral(b, i, "false")
	case 'n':
		return scanLiteral(b, i, "null")
	}
	return scanNumber(b, i)
}

// scanContainer does what scanValue does, for an object or an array.
func scanContainer(b []byte, i, depth int) (int, scanResult) {
	if depth == MaxDepth {
		return i, scanDeep
	}
	end := closing(b[i])
	_, i, r := nextValue(b, i+1, end, true)
	for r == scanOn {
		if i, r = scanValue(b, i, depth+1); r != scanDone {
			return i, r
		}
		_, i, r = nextValue(b, i, end, false)
	}
	return i, r
}

// closing returns the closing bracket for an opening bracket. In ASCII, the code of the closing
// bracket is two higher.
func closing(open byte) byte { return open + 2 }

// nextValue steps from b[i:] to the next value in a container whose closing bracket is end. It
// returns the span of the member's name without the quotes, and the index of the value. If there is
// no further value, it returns scanDone and the index after the closing bracket. If first is true,
// b[i-1] is the opening bracket.
func nextValue(b []byte, i int, end byte, first bool) (name span, _ int, _ scanResult) {
	if i = skipSpace(b, i); i >= len(b) {
		return name, i, scanMore
	}
	switch c := b[i]; {
	case c == end:
		return name, i + 1, scanDone
	case first:
	case c == ',':
		i = skipSpace(b, i+1)
	default:
		return name, i, scanBad
	}
	if end != '}' {
		return name, i, scanOn
	}
	if i < len(b) && b[i] == '"' {
		after, r := stringEnd(b, i+1)
		if r != scanDone {
			return name, after, r
		}
		name = span{i + 1, after - 1}
		if i = skipSpace(b, after); i < len(b) && b[i] == ':' {
			return name, skipSpace(b, i+1), scanOn
		}
	}
	if i < len(b) {
		return name, i, scanBad
	}
	return name, i, scanMore
}

// jsonWalk steps through the members of an object or the elements of an array. It starts at b[i:],
// and checks the syntax of the text that it steps over.
type jsonWalk struct {
	b      []byte
	i      int        // after the last step
	depth  int        // containers around the next value
	end    byte       // the closing bracket; 0 before the first step
	name   []byte     // the member's name: the raw text between the quotes
	value  span       // the position of the value
	result scanResult // scanDone after the closing bracket
}

// membersOf returns a walk over the members of object. If object is not a JSON object, the walk
// fails.
func membersOf(object []byte) jsonWalk { return membersAt(object, skipSpace(object, 0)) }

// membersAt returns a walk over the members of the object at b[i:].
func membersAt(b []byte, i int) jsonWalk {
	if i < len(b) && b[i] == '{' {
		return jsonWalk{b: b, i: i}
	}
	return jsonWalk{i: i, result: scanBad}
}

// next steps to the next value. It returns false at the end and after a mistake.
func (w *jsonWalk) next() bool { return w.toValue() && w.skip() }

// find steps to the next member called name, and then over the member's value. It returns false if
// there is no such member, or after a mistake.
func (w *jsonWalk) find(name string) bool { return w.seek(name) && w.skip() }

// seek steps to the next member called name, and stops before the member's value. It returns false
// if there is no such member, or after a mistake.
func (w *jsonWalk) seek(name string) bool {
	for w.toValue() {
		if nameIs(w.name, name) {
			return true
		}
		if !w.skip() {
			break
		}
	}
	return false
}

// toValue steps to the start of the next value. The caller must then call skip or pass.
func (w *jsonWalk) toValue() bool {
	if w.result != scanOn {
		return false
	}
	first := w.end == 0
	if first {
		switch {
		case w.i >= len(w.b):
			return w.stop(w.i, scanMore)
		case w.b[w.i] != '{' && w.b[w.i] != '[':
			return w.stop(w.i, scanBad)
		case w.depth == MaxDepth:
			return w.stop(w.i, scanDeep)
		}
		w.end = closing(w.b[w.i])
		w.i++
		w.depth++
	}
	name, i, r := nextValue(w.b, w.i, w.end, first)
	if r != scanOn {
		return w.stop(i, r)
	}
	w.name, w.value.from = name.of(w.b), i
	return true
}

// skip scans the value and steps over it.
func (w *jsonWalk) skip() bool { return w.pass(scanValue(w.b, w.value.from, w.depth)) }

// pass steps over the value. end and r are the results of scanning the value.
func (w *jsonWalk) pass(end int, r scanResult) bool {
	if r != scanDone {
		return w.stop(end, r)
	}
	w.i, w.value.to = end, end
	return true
}

func (w *jsonWalk) stop(i int, r scanResult) bool {
	w.i, w.result = i, r
	return false
}

// failed reports whether the walk stopped because of a mistake.
func (w *jsonWalk) failed() bool { return w.result > scanDone }

// jsonEnd finds the end of a value by counting brackets and quotes. It reads each byte of a value
// once, even if the value arrives in many pieces, because each search continues where the last one
// stopped.
type jsonEnd struct {
	at, depth int
	inString  bool
}

// found reports whether b contains the end of the value that starts at b[0], or a mistake in a
// string.
func (e *jsonEnd) found(b []byte) bool {
	for e.at < len(b) {
		if e.inString {
			end, r := stringEnd(b, e.at)
			if e.at = end; r != scanDone {
				return r == scanBad
			}
			e.inString = false
		} else {
			c := b[e.at]
			e.at++
			switch c {
			case '"':
				e.inString = true
			case '{', '[':
				e.depth++
			case '}', ']':
				e.depth--
			case ',', ' ', '\n', '\r', '\t':
			default: // inside a number or a literal
				continue
			}
		}
		if e.depth <= 0 && !e.inString {
			return true
		}
	}
	return false
}

func skipSpace(b []byte, i int) int {
	if i < len(b) && b[i] > ' ' { // the usual case
		return i
	}
	return skipSpaces(b, i)
}

func skipSpaces(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the index after the closing quote of a string; b[i:] starts inside the string.
// If b ends before the closing quote, stringEnd returns the index at which to continue, which is
// never inside an escape sequence.
func stringEnd(b []byte, i int) (int, scanResult) {
	const (
		ones    = 0x0101010101010101
		highs   = 0x8080808080808080
		flip    = ones * ('"' ^ ' ')
		above   = ones * (' ' + 1)
		slashes = ones * '\\'
	)
	for {
		for len(b)-i >= 8 {
			w := binary.LittleEndian.Uint64(b[i : i+8])
			// Eight bytes are tested in one step. The XOR with flip exchanges quote and space. After the
			// XOR, each byte that is not higher than a space is a quote or a control character. A quote ends
			// the string, and a control character is a mistake. The lowest bit in found marks the first such
			// byte, or the first backslash.
			s := w ^ slashes
			found := ((w ^ flip) - above | (s - ones)) &^ w & highs
			if found != 0 {
				i += bits.TrailingZeros64(found) >> 3
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			i++
		}
		if i >= len(b) {
			return i, scanMore
		}
		if b[i] == '"' {
			return i + 1, scanDone
		}
		if b[i] != '\\' {
			return i, scanBad
		}
		n, r := scanEscape(b[i:])
		if r != scanDone {
			return i, r
		}
		i += n
	}
}

// scanEscape returns the length of the escape sequence at the start of b.
func scanEscape(b []byte) (int, scanResult) {
	if len(b) < 2 {
		return 0, scanMore
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, scanDone
	case 'u':
		for i := 2; i < 6; i++ {
			if i >= len(b) {
				return 0, scanMore
			}
			if hexDigit(b[i]) < 0 {
				return 0, scanBad
			}
		}
		return 6, scanDone
	}
	return 0, scanBad
}

// scanLiteral checks that b[i:] starts with want: true, false or null.
func scanLiteral(b []byte, i int, want string) (int, scanResult) {
	n := min(len(b)-i, len(want))
	switch {
	case string(b[i:i+n]) != want[:n]:
		return i, scanBad
	case n < len(want):
		return i, scanMore
	}
	return i + n, scanDone
}

// scanNumber checks the number at b[i:]. It ends at the first byte that cannot be part of a number.
func scanNumber(b []byte, i int) (int, scanResult) {
	from := i
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '-' || b[i] == '+' || b[i] == '.' || b[i]|' ' == 'e') {
		i++
	}
	switch {
	case i == len(b):
		return i, scanMore
	case !isNumber(b[from:i]):
		return from, scanBad
	}
	return i, scanDone
}

// isNumber reports whether b is a number in JSON's grammar.
func isNumber(b []byte) bool {
	_, b = cutByte(b, "-")
	zero, b := cutByte(b, "0")
	ok := true
	if !zero {
		b, ok = cutDigits(b)
	}
	if point, rest := cutByte(b, "."); ok && point {
		b, ok = cutDigits(rest)
	}
	if exponent, rest := cutByte(b, "eE"); ok && exponent {
		_, rest = cutByte(rest, "+-")
		b, ok = cutDigits(rest)
	}
	return ok && len(b) == 0
}

// cutByte removes the first byte of b if chars contains it.
func cutByte(b []byte, chars string) (found bool, rest []byte) {
	for i := range len(chars) {
		if len(b) > 0 && b[0] == chars[i] {
			return true, b[1:]
		}
	}
	return false, b
}

// cutDigits removes the digits at the start of b. ok is false if there are none.
func cutDigits(b []byte) (rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return b[i:], i > 0
}
