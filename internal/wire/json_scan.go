package wire

import (
	"encoding/binary"
	"math/bits"
)

// scanState is what a jsonScanner expects next.
type scanState uint8

const (
	wantValue scanState = iota
	wantElementOrEnd
	wantKeyOrEnd
	wantKey
	wantColon
	wantCommaOrEnd
	inKey
	inString
	inNumber
)

// scanResult says where and why a scan stopped.
type scanResult uint8

const (
	scanOn scanResult = iota
	scanDone
	scanMore // the text ends within the value
	scanBad
	scanDeep      // nested deeper than MaxDepth
	scanDuplicate // the value is complete, and has a member of names twice
)

var scanProblems = [...]string{
	scanBad:       "not JSON",
	scanDeep:      "nested too deep",
	scanDuplicate: "a member twice",
}

// span is a part of a text or a message. The zero value means none, because no member of a text and
// no field of a message ends at 0.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// cover extends the span so that it reaches from its first part to this one.
func (s *span) cover(from, to int) {
	if s.to == 0 {
		s.from = from
	}
	s.to = to
}

// jsonScanner finds the end of one JSON value and checks it. A scan can stop at any byte and
// continue when more of the text has arrived, so no byte is scanned twice.
type jsonScanner struct {
	at      int // how much of the value has been scanned
	state   scanState
	number  numberState
	base    int                     // how deep the value stands in its document
	depth   int                     // how deep the scan stands in its document
	objects [MaxDepth/64 + 1]uint64 // by depth, whether that container is an object
	names   []string                // members of the value itself to be noted
	twice   bool                    // one of them was there twice
	spans   [maxNames]span          // where their values stand
	keyFrom int                     // where the key of the value's member starts, behind the quote
	noted   int                     // which of names the member is that is being scanned, -1 none
}

// maxNames is how many members can be noted.
const maxNames = 4

// start prepares the scanner for a value at depth base of its document.
func (s *jsonScanner) start(base int, names []string) {
	s.at, s.state, s.base, s.depth = 0, wantValue, base, base
	s.names, s.noted, s.twice = names, -1, false
	clear(s.spans[:])
}

// scan continues through b, which starts with the value and holds at least as much as in the last
// call. After scanDone and scanDuplicate, s.at is the end of the value. Otherwise it is where the
// scan stopped.
func (s *jsonScanner) scan(b []byte) scanResult {
	r := scanOn
	switch s.state {
	case inKey:
		if s.at, r = stringEnd(b, s.at); r != scanDone {
			return r
		}
		if s.names != nil && s.depth == s.base+1 {
			s.note(b, s.at)
		}
		s.state = wantColon
	case inString, inNumber:
		if s.state == inString {
			s.at, r = stringEnd(b, s.at)
		} else {
			r = s.scanNumber(b)
		}
		if r != scanDone {
			return r
		}
		if r = s.endValue(); r != scanOn {
			return r
		}
	}
	return s.scanTokens(b)
}

// scanTokens scans from the boundary between two tokens.
func (s *jsonScanner) scanTokens(b []byte) scanResult {
	for s.at < len(b) {
		c := b[s.at]
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			s.at++
			continue
		}
		r := scanOn
		switch s.state {
		case wantKey, wantKeyOrEnd:
			r = s.key(b, c)
		case wantColon:
			if c != ':' {
				return scanBad
			}
			s.at++
			s.state = wantValue
		case wantCommaOrEnd:
			r = s.commaOrEnd(b, c)
		default:
			r = s.value(b, c)
		}
		if r != scanOn {
			return r
		}
	}
	return scanMore
}

// key scans the name of a member, and also the colon and a string value if they follow directly.
func (s *jsonScanner) key(b []byte, c byte) scanResult {
	if c != '"' {
		if s.state == wantKey {
			return scanBad
		}
		return s.end(c)
	}
	s.keyFrom = s.at + 1
	end, r := stringEnd(b, s.keyFrom)
	s.at = end
	if r != scanDone {
		s.state = inKey
		return r
	}
	if s.names != nil && s.depth == s.base+1 {
		s.note(b, end)
	}
	if end >= len(b) || b[end] != ':' {
		s.state = wantColon
		return scanOn
	}
	s.at++
	s.state = wantValue
	if end+1 < len(b) && b[end+1] == '"' {
		return s.text(b)
	}
	return scanOn
}

// commaOrEnd scans the comma or bracket after a value, and also the next name if it follows
// directly.
func (s *jsonScanner) commaOrEnd(b []byte, c byte) scanResult {
	if c != ',' {
		return s.end(c)
	}
	s.at++
	if !s.inObject(s.depth) {
		s.state = wantValue
		return scanOn
	}
	s.state = wantKey
	if s.at < len(b) && b[s.at] == '"' {
		return s.key(b, '"')
	}
	return scanOn
}

// text scans a string that is a value.
func (s *jsonScanner) text(b []byte) scanResult {
	s.startValue()
	end, r := stringEnd(b, s.at+1)
	s.at = end
	if r != scanDone {
		s.state = inString
		return r
	}
	return s.endValue()
}

// value scans a value. Of a container it scans only the opening bracket.
func (s *jsonScanner) value(b []byte, c byte) scanResult {
	switch c {
	case '"':
		return s.text(b)
	case '{', '[':
		s.startValue()
		return s.open(c)
	case ']':
		if s.state != wantElementOrEnd {
			return scanBad
		}
		return s.end(c)
	case 't', 'f', 'n':
		n, r := literal(b[s.at:], c)
		if r != scanDone {
			return r
		}
		s.startValue()
		s.at += n
	default:
		s.startValue()
		s.number = numberStart
		if r := s.scanNumber(b); r != scanDone {
			s.state = inNumber
			return r
		}
	}
	return s.endValue()
}

// open scans the start of a container.
func (s *jsonScanner) open(c byte) scanResult {
	if s.depth == MaxDepth {
		return scanDeep
	}
	s.depth++
	s.at++
	if c == '{' {
		s.objects[s.depth>>6] |= 1 << (s.depth & 63)
		s.state = wantKeyOrEnd
	} else {
		s.objects[s.depth>>6] &^= 1 << (s.depth & 63)
		s.state = wantElementOrEnd
	}
	return scanOn
}

// end scans the end of a container.
func (s *jsonScanner) end(c byte) scanResult {
	want := byte(']')
	if s.inObject(s.depth) {
		want = '}'
	}
	if c != want {
		return scanBad
	}
	s.depth--
	s.at++
	return s.endValue()
}

func (s *jsonScanner) inObject(depth int) bool {
	return s.objects[depth>>6]&(1<<(depth&63)) != 0
}

// startValue notes the start of a member's value.
func (s *jsonScanner) startValue() {
	if s.noted >= 0 && s.depth == s.base+1 {
		s.spans[s.noted].from = s.at
	}
}

// endValue notes the end of a value and sets what comes next.
func (s *jsonScanner) endValue() scanResult {
	s.state = wantCommaOrEnd
	if s.depth == s.base && s.twice {
		return scanDuplicate
	}
	if s.depth == s.base {
		return scanDone
	}
	if s.noted >= 0 && s.depth == s.base+1 {
		s.spans[s.noted].to = s.at
		s.noted = -1
	}
	return scanOn
}

// note looks up the member whose key ends at end, after the quote, in names.
func (s *jsonScanner) note(b []byte, end int) {
	s.noted = -1
	for n, name := range s.names {
		if nameIs(b[s.keyFrom:end-1], name) {
			s.noted = n
			s.twice = s.twice || s.spans[n] != span{}
			return
		}
	}
}

// stringEnd returns the index after the closing quote of the string of which b[i:] is the rest. If
// b ends before that, it returns the index at which to continue, which is never within an escape.
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
			// With one bit flipped a quote is a space and a space a quote, so that all up to a
			// space is what ends the text. The lowest high bit set is at the first such byte or at
			// the first backslash.
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
		n, r := escape(b[i:])
		if r != scanDone {
			return i, r
		}
		i += n
	}
}

// escape returns the length of the escape that b starts with.
func escape(b []byte) (int, scanResult) {
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
			if _, ok := hexDigit(b[i]); !ok {
				return 0, scanBad
			}
		}
		return 6, scanDone
	}
	return 0, scanBad
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// literal returns the length of true, false or null. c is its first letter.
func literal(b []byte, c byte) (int, scanResult) {
	want := "null"
	switch c {
	case 't':
		want = "true"
	case 'f':
		want = "false"
	}
	n := min(len(b), len(want))
	switch {
	case string(b[:n]) != want[:n]:
		return 0, scanBad
	case n < len(want):
		return 0, scanMore
	}
	return n, scanDone
}
