package clientgo

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/weirproject/weir/internal/wire"
)

// headBytes is how much of a captured LIST is looked at for kinds, at most.
const maxTypeMetaPrefix = 512

// listHead is what the first bytes of a list tell of kinds. kube-apiserver sends the list's own first, but for custom
// resources: their keys are sorted, so the items stand before the list's kind, and begin with theirs.
type listTypeMeta struct {
	list wire.TypeMeta
	item wire.TypeMeta // of the first item, as it says itself
}

// decided reports whether reading on could tell nothing more.
func (h listTypeMeta) isComplete() bool {
	return h.list.Kind != "" && h.list.APIVersion != "" || h.list.Kind == "" && h.item.Kind != "" && h.item.APIVersion != ""
}

// readHead reads the head of a list, no further than is needed, and returns a reader of the whole of it. What cannot be
// read as a list has no kinds. The error is the reader's.
func readListTypeMeta(r io.Reader, enc wire.Encoding) (listTypeMeta, io.Reader, error) {
	var head listTypeMeta
	buf := make([]byte, 0, maxTypeMetaPrefix)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if enc == wire.JSON {
			head = jsonListTypeMeta(buf)
		} else {
			head = protobufListTypeMeta(buf)
		}
		switch {
		case err == io.EOF:
			return head, bytes.NewReader(buf), nil
		case err != nil:
			return head, nil, err
		case head.isComplete(), len(buf) == cap(buf):
			return head, io.MultiReader(bytes.NewReader(buf), r), nil
		}
	}
}

// protobufHead reads the envelope, which says the list's kind.
func protobufListTypeMeta(text []byte) listTypeMeta {
	reader := wire.NewListReader(bytes.NewReader(text), wire.Protobuf, wire.Limits{})
	_, _ = reader.Next() // the text ends somewhere; the kind stands before that, or is not known yet
	return listTypeMeta{list: reader.TypeMeta()}
}

// jsonHead reads the members of the list up to where the text ends, and those of the first item.
func jsonListTypeMeta(text []byte) (head listTypeMeta) {
	d := json.NewDecoder(bytes.NewReader(text))
	if !delim(d, '{') {
		return head
	}
	readMembers(d, &head.list, func() bool { return readItems(d, &head.item) })
	return head
}

// readItems reads the array of items, and of the first one the kind. It reports whether the text goes on behind it.
func readItems(d *json.Decoder, first *wire.TypeMeta) bool {
	if !delim(d, '[') {
		return false
	}
	if d.More() {
		if !delim(d, '{') {
			return false
		}
		if readMembers(d, first, nil); !delim(d, '}') {
			return false
		}
	}
	for d.More() {
		if d.Decode(new(json.RawMessage)) != nil {
			return false
		}
	}
	return delim(d, ']')
}

// readMembers reads the members of an object, up to where the text ends. items, unless it is nil, reads the member of that name,
// and reports whether to go on.
func readMembers(d *json.Decoder, t *wire.TypeMeta, items func() bool) {
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return
		}
		if name == "items" && items != nil {
			if !items() {
				return
			}
			continue
		}
		var value any = new(json.RawMessage)
		switch name {
		case "kind":
			value = &t.Kind
		case "apiVersion":
			value = &t.APIVersion
		}
		if d.Decode(value) != nil {
			return
		}
	}
}

// delim reads one token, and reports whether it is this one.
func delim(d *json.Decoder, want json.Delim) bool {
	token, err := d.Token()
	return err == nil && token == want
}
