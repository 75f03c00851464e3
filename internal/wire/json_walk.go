package wire

import "bytes"

// The functions here walk over JSON that a jsonScanner has passed. On other bytes they neither
// panic nor run on, but they do not find every mistake.

// jsonMembers steps through the members of an object.
type jsonMembers struct {
	b   []byte
	i   int // of the next name, or of the comma before it
	bad bool
}

// membersOf returns the members of an object. If object is not one, the result has bad set.
func membersOf(object []byte) jsonMembers {
	i := skipSpace(object, 0)
	if i >= len(object) || object[i] != '{' {
		return jsonMembers{bad: true}
	}
	return jsonMembers{b: object, i: i + 1}
}

// next returns the next member: its name as it stands between the quotes, and where its value
// stands.
func (m *jsonMembers) next() (name []byte, value span, ok bool) {
	if m.bad {
		return nil, span{}, false
	}
	i := skipSpace(m.b, m.i)
	if i < len(m.b) && m.b[i] == ',' {
		i = skipSpace(m.b, i+1)
	}
	if i < len(m.b) && m.b[i] == '}' {
		m.i = i
		return nil, span{}, false
	}
	end := skipString(m.b, i)
	if end < 0 {
		m.bad = true
		return nil, span{}, false
	}
	name = m.b[i+1 : end-1]
	if i = skipSpace(m.b, end); i >= len(m.b) || m.b[i] != ':' {
		m.bad = true
		return nil, span{}, false
	}
	value.from = skipSpace(m.b, i+1)
	if value.to = skipValue(m.b, value.from); value.to < 0 {
		m.bad = true
		return nil, span{}, false
	}
	m.i = value.to
	return name, value, true
}

// find returns where the value of the next member of this name stands, and skips the members before
// it.
func (m *jsonMembers) find(name string) (value span, ok bool) {
	for {
		raw, value, ok := m.next()
		if !ok || nameIs(raw, name) {
			return value, ok
		}
	}
}

// jsonElements steps through the elements of an array.
type jsonElements struct {
	b   []byte
	i   int
	bad bool
}

// elementsOf returns the elements of an array, which b starts with.
func elementsOf(b []byte) jsonElements {
	if len(b) == 0 || b[0] != '[' {
		return jsonElements{bad: true}
	}
	return jsonElements{b: b, i: 1}
}

// next returns where the next element stands.
func (e *jsonElements) next() (value span, ok bool) {
	if e.bad {
		return span{}, false
	}
	i := skipSpace(e.b, e.i)
	if i < len(e.b) && e.b[i] == ',' {
		i = skipSpace(e.b, i+1)
	}
	if i < len(e.b) && e.b[i] == ']' {
		return span{}, false
	}
	end := skipValue(e.b, i)
	if end < 0 {
		e.bad = true
		return span{}, false
	}
	e.i = end
	return span{i, end}, true
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index behind the string at b[i:], -1 if there is none.
func skipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	end, r := stringEnd(b, i+1)
	if r != scanDone {
		return -1
	}
	return end
}

// skipValue returns the index behind the value at b[i:], -1 if there is none.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipContainer(b, i)
	}
	n := bytes.IndexAny(b[i:], ",]} \n\r\t")
	switch n {
	case -1:
		return len(b)
	case 0:
		return -1
	}
	return i + n
}

func skipContainer(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end, r := stringEnd(b, i+1)
			if r != scanDone {
				return -1
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// isString reports whether a value is a string.
func isString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

// isNull reports whether a value is null.
func isNull(v []byte) bool { return string(v) == "null" }
