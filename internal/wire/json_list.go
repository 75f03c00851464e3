package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// listState is the position of a jsonList in the list's document.
type listState uint8

const (
	atStart listState = iota
	inMembers
	inItems
	atEnd
)

// objectNames are the members of an object that this package reads, so that each may be there only
// once.
var objectNames = []string{"metadata", "kind", "apiVersion"}

// Places in jsonScanner.spans that belong to objectNames.
const (
	noteMetadata = iota
	noteKind
	noteAPIVersion
)

// jsonList cuts a JSON list into items.
type jsonList struct {
	jsonStream
	max   int
	list  *ListReader
	state listState
	first bool // of the container that is being read
	seen  memberSet
	name  []byte
	// status holds the members that a Status has and a list has not, with a comma before each:
	// whether the body is a Status may be known only at its end.
	status []byte
}

// memberSet is the set of a list's members that were seen.
type memberSet uint8

const (
	seenItems memberSet = 1 << iota
	seenKind
	seenAPIVersion
	seenMetadata
)

func (j *jsonList) next() ([]byte, error) {
	for {
		var err error
		switch j.state {
		case atStart:
			err = j.openList()
		case inMembers:
			err = j.readMember()
		case inItems:
			item, err := j.readItem()
			if item != nil || err != nil {
				return item, err
			}
		case atEnd:
			return nil, j.closeList()
		}
		if err != nil {
			return nil, err
		}
	}
}

func (j *jsonList) openList() error {
	c, err := j.peek()
	if err != nil {
		return j.fail("list", early(err))
	}
	if c != '{' {
		return j.notAnObject(c, "list")
	}
	j.pos++
	j.state, j.first = inMembers, true
	return nil
}

// notAnObject returns the error for a body that does not begin with an object.
func (j *jsonStream) notAnObject(c byte, what string) error {
	switch {
	case c == 0xEF:
		return j.malformed(what + ": starts with a byte order mark")
	case c == 'k':
		return j.malformed(what + ": is protobuf, not JSON")
	}
	return j.malformed(what + ": is not an object")
}

// readItem returns the next item, or nil at the end of the items.
func (j *jsonList) readItem() ([]byte, error) {
	j.release()
	ended, err := j.separator(j.first, ']', "items")
	if err != nil {
		return nil, err
	}
	if ended {
		j.state, j.first = inMembers, false
		return nil, nil
	}
	j.first = false
	j.release()
	c, err := j.peek()
	if err != nil {
		return nil, j.fail("item", early(err))
	}
	item, err := j.value(2, objectNames, j.max, "item")
	switch {
	case item == nil:
		return nil, err
	case c != '{':
		err = j.malformed("item: is not an object")
	}
	if err != nil {
		return nil, &ItemError{err}
	}
	if j.list.ItemTypeMeta().Kind == "" {
		j.noteItemType(item)
	}
	return item, nil
}

// noteItemType notes what an item says that it is, if it says so: kube-apiserver writes the kind of
// lists of custom resources behind the items, each of which has its own.
func (j *jsonList) noteItemType(item []byte) {
	var t TypeMeta
	err := t.setJSON(j.scan.spans[noteAPIVersion].of(item), j.scan.spans[noteKind].of(item))
	if err == nil && t.APIVersion != "" && t.Kind != "" {
		j.list.itemType = t
	}
}

func (j *jsonList) readMember() error {
	j.release()
	ended, err := j.separator(j.first, '}', "list")
	if err != nil {
		return err
	}
	if ended {
		j.state = atEnd
		return nil
	}
	j.first = false
	if j.name, err = j.jsonStream.name(j.name[:0], "list"); err != nil {
		return err
	}
	j.release()
	switch string(j.name) {
	case "items":
		return j.openItems()
	case "kind":
		return j.readString(seenKind, &j.list.typeMeta.Kind)
	case "apiVersion":
		return j.readString(seenAPIVersion, &j.list.typeMeta.APIVersion)
	case "metadata":
		return j.readMeta()
	case "status", "message", "reason", "details", "code":
		return j.keepForStatus()
	}
	return j.skip(1, "list")
}

func (j *jsonList) once(m memberSet) error {
	if j.seen&m != 0 {
		return j.malformed("list: " + string(j.name) + " twice")
	}
	j.seen |= m
	return nil
}

func (j *jsonList) openItems() error {
	if err := j.once(seenItems); err != nil {
		return err
	}
	c, err := j.peek()
	switch {
	case err != nil:
		return j.fail("items", early(err))
	case c == '[':
		j.pos++
		j.state, j.first = inItems, true
		return nil
	case c == 'n':
		return j.skip(1, "items")
	}
	return j.malformed("items: is not an array")
}

// readString reads a member that is a string. It leaves *to empty for null.
func (j *jsonList) readString(m memberSet, to *string) error {
	if err := j.once(m); err != nil {
		return err
	}
	v, err := j.value(1, nil, maxDescription, "list")
	if err != nil {
		return err
	}
	text, ok := stringOrNull(v)
	if !ok {
		return j.malformed("list: " + string(j.name) + " is not a string")
	}
	*to = text
	return nil
}

func (j *jsonList) readMeta() error {
	if err := j.once(seenMetadata); err != nil {
		return err
	}
	v, err := j.value(1, listMetaNames, maxDescription, "list metadata")
	if err != nil {
		return err
	}
	return j.list.meta.readJSON(v, &j.scan.spans, j.offset()-int64(len(v)))
}

func (j *jsonList) keepForStatus() error {
	if j.seen&seenItems != 0 {
		return j.skip(1, "list")
	}
	v, err := j.value(1, nil, maxDescription, "list")
	if err != nil {
		return err
	}
	if len(j.status)+len(v) > maxDescription {
		return j.fail("list: members that make no list", ErrTooLarge)
	}
	j.status = append(j.status, `,"`...)
	j.status = append(j.status, j.name...)
	j.status = append(j.status, `":`...)
	j.status = append(j.status, v...)
	return nil
}

// closeList reads to the end of the body. It returns an error if the body was not a list.
func (j *jsonList) closeList() error {
	j.release()
	if c, err := j.peek(); err == nil {
		return j.malformed("list: " + string(rune(c)) + " behind its end")
	} else if !errors.Is(err, io.EOF) {
		return j.fail("list", err)
	}
	j.release()
	tm := j.list.typeMeta
	switch {
	case tm.Kind == "Status" && j.seen&seenItems == 0:
		return j.statusError()
	case tm.Kind == "Status":
		return j.malformed("a Status with items")
	case j.seen&seenItems == 0 && !strings.HasSuffix(tm.Kind, "List"):
		return malformedf(0, "a %.80q without items where a list was expected", tm.Kind)
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
