package wire

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// jsonBody reads JSON from a body, value by value. pos is the position in the buffer's window. The
// bytes before pos have been read, but the buffer keeps them until release.
type jsonBody struct {
	buf buffer
	pos int
}

// release lets the buffer discard everything before pos.
func (j *jsonBody) release() {
	j.buf.consume(j.pos)
	j.pos = 0
}

// offset returns the offset of pos in the body.
func (j *jsonBody) offset() int64 { return j.buf.off + int64(j.pos) }

// fail returns a *SyntaxError for the byte at pos.
func (j *jsonBody) fail(what string, err error) error {
	return j.buf.fail(j.pos, what, err)
}

func (j *jsonBody) malformed(what string) error { return j.fail(what, ErrMalformed) }

// peek returns the next byte that is not whitespace. It consumes the whitespace, but not that byte.
// At the end of the body the error is io.EOF.
func (j *jsonBody) peek(what string) (byte, error) {
	for {
		w := j.buf.window()
		j.pos = skipSpace(w, j.pos)
		if j.pos < len(w) {
			c := w[j.pos]
			j.release()
			return c, nil
		}
		j.release()
		switch err := j.buf.more(); {
		case err == io.EOF:
			return 0, err
		case err != nil:
			return 0, j.fail(what, err)
		}
	}
}

// nextByte does what peek does, but treats the end of the body as an error, which wraps
// io.ErrUnexpectedEOF.
func (j *jsonBody) nextByte(what string) (byte, error) {
	c, err := j.peek(what)
	if err == io.EOF {
		err = j.fail(what, io.ErrUnexpectedEOF)
	}
	return c, err
}

// checkObject returns an error unless c, the first byte of a body or an event, is an opening brace.
func (j *jsonBody) checkObject(c byte, what string) error {
	switch c {
	case '{':
		return nil
	case 0xEF:
		return j.malformed(what + ": starts with a byte order mark")
	case 'k':
		return j.malformed(what + ": is protobuf, not JSON")
	}
	return j.malformed(what + ": is not an object")
}

// separator consumes the comma between members or elements of a container, or the closing bracket
// of the container, which is the argument end. It reports whether the container ended.
func (j *jsonBody) separator(first bool, end byte, what string) (ended bool, err error) {
	c, err := j.nextByte(what)
	switch {
	case err != nil:
		return false, err
	case c == end:
		j.pos++
		return true, nil
	case first:
		return false, nil
	case c != ',':
		return false, j.malformed(fmt.Sprintf("%s: %q where a comma was expected", what, c))
	}
	j.pos++
	if c, err = j.nextByte(what); err == nil && c == end {
		err = j.malformed(what + ": a comma before its end")
	}
	return false, err
}

// jsonScan checks the value at the start of b, and returns what scanValue returns.
type jsonScan func(b []byte) (int, scanResult)

// checkMember checks the value of a member of the list.
func checkMember(b []byte) (int, scanResult) { return scanValue(b, 0, 1) }

// value reads a value of at most limit bytes and moves pos after the value. The returned bytes are
// part of the window and valid until the next read.
//
// value first calls scan with the bytes that have arrived, which are nearly always the whole value.
// If the value is incomplete, value reads until the brackets are balanced, and then calls scan
// again from the start of the value.
func (j *jsonBody) value(what string, limit int, scan jsonScan) ([]byte, error) {
	if _, err := j.nextByte(what); err != nil {
		return nil, err
	}
	j.release()
	var end jsonEnd
	var readErr error
	for {
		w := j.buf.window()
		n, r := scan(w)
		switch {
		case n > limit:
			return nil, j.fail(fmt.Sprintf("%s of more than %d bytes", what, limit), ErrTooLarge)
		case r == scanDone:
			j.pos = n
			return w[:n:n], nil
		case r != scanMore:
			return nil, j.buf.fail(n, what+": "+scanProblems[r], ErrMalformed)
		case readErr != nil:
			return nil, j.buf.fail(len(w), what, early(readErr))
		}
		for {
			if readErr = j.buf.more(); readErr != nil || end.found(j.buf.window()) || j.buf.len() > limit {
				break
			}
		}
	}
}

// early replaces io.EOF by io.ErrUnexpectedEOF. It returns any other error unchanged.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jsonList splits a JSON list into items.
type jsonList struct {
	jsonBody
	max     int
	list    *ListReader
	opened  bool
	inItems bool
	first   bool            // the next member or element is the first of its container
	seen    map[string]bool // members that may occur only once and have been read
	notes   objectNotes     // positions in the last item
	// status contains the members that a Status has and a list does not have, such as message and
	// code. Each is preceded by a comma. They are stored because the kind, which says whether the body
	// is a Status, may be the last member.
	status []byte
}

func (j *jsonList) next() ([]byte, error) {
	j.release()
	if !j.opened {
		c, err := j.nextByte("list")
		if err == nil {
			err = j.checkObject(c, "list")
		}
		if err != nil {
			return nil, err
		}
		j.pos++
		j.opened, j.first, j.seen = true, true, map[string]bool{}
	}
	for {
		if j.inItems {
			if item, err := j.readItem(); item != nil || err != nil {
				return item, err
			}
		}
		if err := j.readMember(); err != nil {
			return nil, err
		}
	}
}

// readItem returns the next item, or nil after the last one.
func (j *jsonList) readItem() ([]byte, error) {
	ended, err := j.separator(j.first, ']', "items")
	j.first, j.inItems = false, !ended
	if ended || err != nil {
		return nil, err
	}
	item, err := j.value("item", j.max, func(b []byte) (int, scanResult) { return j.notes.scan(b, 0, 2) })
	if err != nil {
		return nil, err
	}
	if err := j.notes.problem(item); err != "" {
		return nil, &ItemError{j.malformed("item: " + err)}
	}
	if j.list.ItemTypeMeta().Kind == "" {
		j.noteItemType(item)
	}
	return item, nil
}

// noteItemType stores the type that an item states. kube-apiserver writes the kind of a list of
// custom resources after the items, so ItemTypeMeta needs an item's own type until then.
func (j *jsonList) noteItemType(item []byte) {
	var t TypeMeta
	if j.notes.typeMeta(item, &t) == nil && t.APIVersion != "" && t.Kind != "" {
		j.list.itemType = t
	}
}

// readMember reads one member of the list. If the member is an array of items, it reads only the
// opening bracket. At the end of the list it returns the error of close.
func (j *jsonList) readMember() error {
	ended, err := j.separator(j.first, '}', "list")
	if err != nil {
		return err
	}
	if ended {
		return j.close()
	}
	j.first = false
	name, err := j.name()
	if err != nil {
		return err
	}
	limit := maxDescription
	switch name {
	case "items", "kind", "apiVersion", "metadata":
		if j.seen[name] {
			return j.malformed("list: " + name + " twice")
		}
		j.seen[name] = true
	case "status", "message", "reason", "details", "code":
	default:
		limit = j.max
	}
	if name == "items" {
		c, err := j.nextByte("items")
		if err != nil {
			return err
		}
		if c == '[' {
			j.pos++
			j.inItems, j.first = true, true
			return nil
		}
	}
	v, err := j.value("list", limit, checkMember)
	if err != nil {
		return err
	}
	return j.setMember(name, v)
}

// name consumes a member's name and the colon after it.
func (j *jsonList) name() (string, error) {
	v, err := j.value("list", maxDescription, checkMember)
	if err != nil {
		return "", err
	}
	if !isString(v) {
		return "", j.malformed("list: a value where a name was expected")
	}
	name, _ := stringOrNull(v)
	c, err := j.nextByte("list")
	if err == nil && c != ':' {
		err = j.malformed("list: no colon after a name")
	}
	j.pos++
	return name, err
}

// setMember stores the value of a member that is not an array of items.
func (j *jsonList) setMember(name string, v []byte) error {
	ok := true
	switch name {
	case "items":
		if !isNull(v) {
			return j.malformed("items: is not an array")
		}
	case "kind":
		j.list.typeMeta.Kind, ok = stringOrNull(v)
	case "apiVersion":
		j.list.typeMeta.APIVersion, ok = stringOrNull(v)
	case "metadata":
		return j.list.meta.readJSON(v, j.offset()-int64(len(v)))
	case "status", "message", "reason", "details", "code":
		if j.seen["items"] {
			return nil
		}
		if len(j.status)+len(v) > maxDescription {
			return j.fail("list: members of no list", ErrTooLarge)
		}
		j.status = append(append(append(j.status, `,"`...), name...), `":`...)
		j.status = append(j.status, v...)
	}
	if !ok {
		return j.malformed("list: " + name + " is not a string")
	}
	return nil
}

// close reads to the end of the body. It returns io.EOF if the body is a list.
func (j *jsonList) close() error {
	if c, err := j.peek("list"); err == nil {
		return j.malformed("list: " + string(rune(c)) + " after its end")
	} else if err != io.EOF {
		return err
	}
	kind := j.list.typeMeta.Kind
	switch {
	case kind == "Status" && !j.seen["items"]:
		return j.statusError()
	case kind == "Status":
		return j.malformed("a Status with items")
	case !j.seen["items"] && !strings.HasSuffix(kind, "List"):
		return malformedf(0, "a %.80q without items where a list was expected", kind)
	}
	return io.EOF
}

func (j *jsonList) statusError() error {
	var b bytes.Buffer
	b.WriteString(`{"kind":"Status","apiVersion":"v1"`)
	b.Write(j.status)
	b.WriteByte('}')
	s, err := ReadStatus(JSON, b.Bytes())
	if err != nil {
		return err
	}
	s.ResourceVersion, s.Continue = j.list.meta.ResourceVersion, j.list.meta.Continue
	return newStatusError(s)
}

// readJSON sets m from v, the JSON value of a list's metadata. offset is the position of v in the
// body, for errors.
func (m *ListMeta) readJSON(v []byte, offset int64) error {
	if isNull(v) {
		return nil
	}
	seen := map[string]bool{}
	w := membersOf(v)
	for w.next() {
		name, value := string(unescape(nil, w.name)), w.value.of(v)
		want, ok := "a string", true
		switch name {
		case "resourceVersion":
			m.ResourceVersion, ok = stringOrNull(value)
		case "continue":
			m.Continue, ok = stringOrNull(value)
		case "remainingItemCount":
			want = "a number"
			if !isNull(value) {
				var err error
				m.RemainingItemCount, err = strconv.ParseInt(string(value), 10, 64)
				ok = err == nil
			}
		case "shardInfo":
			m.ShardSelector = shardInfo(value)
		default:
			continue
		}
		at := offset + int64(w.value.from)
		if !ok {
			return malformedf(at, "list metadata: %s is not %s", name, want)
		}
		if seen[name] {
			return malformedf(at, "list metadata: %s twice", name)
		}
		seen[name] = true
	}
	if w.failed() {
		return malformed(offset, "list metadata: is not an object")
	}
	return nil
}

// shardInfo returns the selector in a list's shardInfo, or "". A malformed selector causes no
// error, because Weir does not depend on the selector.
func shardInfo(v []byte) (selector string) {
	w := membersOf(v)
	for w.find("selector") {
		selector, _ = stringOrNull(w.value.of(v))
	}
	return selector
}
