package clientgo

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/weirproject/weir/internal/core/wire"
)

// maxTypeMetaPrefix limits the bytes of a captured LIST that are searched for types.
const maxTypeMetaPrefix = 512

// listTypeMeta contains the types in the first bytes of a list. kube-apiserver sends the list's own
// type first, except for custom resources: there the keys are sorted, so the items precede the
// list's kind, and each item starts with its own type.
type listTypeMeta struct {
	list wire.TypeMeta
	item wire.TypeMeta // of the first item
}

// isComplete reports whether reading further could find nothing more.
func (h listTypeMeta) isComplete() bool {
	return h.list.Kind != "" && h.list.APIVersion != "" || h.list.Kind == "" && h.item.Kind != "" && h.item.APIVersion != ""
}

// readListTypeMeta reads no more of a list than necessary, and returns a reader of the whole list.
// The result is empty for a body that is not a list. The error is the reader's.
func readListTypeMeta(r io.Reader, enc wire.Encoding) (listTypeMeta, io.Reader, error) {
	var types listTypeMeta
	buf := make([]byte, 0, maxTypeMetaPrefix)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if enc == wire.JSON {
			types = jsonListTypeMeta(buf)
		} else {
			types = protobufListTypeMeta(buf)
		}
		switch {
		case err == io.EOF:
			return types, bytes.NewReader(buf), nil
		case err != nil:
			return types, nil, err
		case types.isComplete(), len(buf) == cap(buf):
			return types, io.MultiReader(bytes.NewReader(buf), r), nil
		}
	}
}

// protobufListTypeMeta reads the envelope, which contains the list's type.
func protobufListTypeMeta(text []byte) listTypeMeta {
	reader := wire.NewListReader(bytes.NewReader(text), wire.Protobuf, wire.Limits{})
	_, _ = reader.Next() // the text is cut off; the type precedes that, or remains unknown
	return listTypeMeta{list: reader.TypeMeta()}
}

// jsonListTypeMeta reads the members of the list, and of its first item, until the text ends.
func jsonListTypeMeta(text []byte) (types listTypeMeta) {
	d := json.NewDecoder(bytes.NewReader(text))
	if !delim(d, '{') {
		return types
	}
	readMembers(d, &types.list, func() bool { return readItems(d, &types.item) })
	return types
}

// readItems reads the array of items and the type of the first one. It reports whether text follows
// the array.
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

// readMembers reads the members of an object until the text ends. If items is not nil it reads the
// member of that name and reports whether to go on.
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

// delim reads one token and reports whether it is want.
func delim(d *json.Decoder, want json.Delim) bool {
	token, err := d.Token()
	return err == nil && token == want
}
