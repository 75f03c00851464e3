package codec

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A value in protobuf that states another kind than Decode gives it has the kind in a field in
// front of its message, which has no room for it. The field is a message with the apiVersion and
// the kind as its fields 1 and 2, as in runtime.Unknown. Whoever does not know the field skips it,
// and no field of Kubernetes' types has its number, or one near it. It is for bytes that stay in
// the process: no server sends it, and it is sent to none.
const (
	kindField       = 60_000
	apiVersionField = 1
	nameField       = 2 // of the kind's own name
)

var (
	kindTag       = string(protowire.AppendTag(nil, kindField, protowire.BytesType))
	apiVersionTag = string(protowire.AppendTag(nil, apiVersionField, protowire.BytesType))
	nameTag       = string(protowire.AppendTag(nil, nameField, protowire.BytesType))
)

// Kind is the apiVersion and kind that stand in front of an object's message. It is immutable. All
// objects of an informer mostly have the same one.
type Kind struct {
	stated metav1.TypeMeta
	field  string // with its tag
}

// CutKind returns what stands in front of an object's message, or nil if there is nothing, and the
// message. The message aliases raw.
func (c *Codec) CutKind(raw []byte) (k *Kind, message []byte) {
	if len(raw) < len(kindTag) || string(raw[:len(kindTag)]) != kindTag {
		return nil, raw
	}
	if k := c.kind.Load(); k != nil && len(raw) >= len(k.field) && string(raw[:len(k.field)]) == k.field {
		return k, raw[len(k.field):]
	}
	if k = parseKind(raw); k == nil {
		return nil, raw // it is not ours, and skipped with what else is unknown
	}
	c.kind.Store(k)
	return k, raw[len(k.field):]
}

// parseKind returns the kind in the field that raw begins with, or nil if the field is not as
// kindOf makes it.
func parseKind(raw []byte) *Kind {
	content, n := protowire.ConsumeBytes(raw[len(kindTag):])
	apiVersion, content, ok := cutText(content, apiVersionTag)
	name, content, okToo := cutText(content, nameTag)
	if n < 0 || !ok || !okToo || len(content) > 0 {
		return nil
	}
	return &Kind{metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(name)}, string(raw[:len(kindTag)+n])}
}

// cutText returns the text in the field that a message begins with, which must have the tag, and
// the rest of the message.
func cutText(message []byte, tag string) (text, rest []byte, ok bool) {
	if !bytes.HasPrefix(message, []byte(tag)) {
		return nil, nil, false
	}
	text, n := protowire.ConsumeBytes(message[len(tag):])
	if n < 0 {
		return nil, nil, false
	}
	return text, message[len(tag)+n:], true
}

// kindOf returns what stands in front of the messages of values that state an apiVersion and kind.
func (c *Codec) kindOf(stated *metav1.TypeMeta) *Kind {
	if k := c.kind.Load(); k != nil && k.stated == *stated {
		return k
	}
	content := protowire.AppendString([]byte(apiVersionTag), stated.APIVersion)
	content = protowire.AppendString(append(content, nameTag...), stated.Kind)
	k := parseKind(protowire.AppendBytes([]byte(kindTag), content))
	c.kind.Store(k)
	return k
}

// front returns what has to stand in front of a value's message: nothing, if the value states what
// Decode gives it anyway. The type must have a protobuf form.
func (c *Codec) front(value any) string {
	stated := c.protobuf.TypeMeta(value)
	if stated == nil || *stated == c.given {
		return ""
	}
	return c.kindOf(stated).field
}

// SetKind gives a value that was decoded from a message what stood in front of it, and returns the
// value. Without a kind the value gets what Decode gives it then.
func (c *Codec) SetKind(value any, k *Kind) any {
	switch stated := c.protobuf.TypeMeta(value); {
	case stated == nil:
	case k == nil:
		*stated = c.given
	default:
		*stated = k.stated
	}
	return value
}

// sizedMessage is a message whose Marshal does no more than to make a buffer and fill it.
type sizedMessage interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// marshalBehind returns a message's bytes with something in front of them. It returns an error if
// the type's own code panics, as generated code does at a nil element of a slice of pointers.
func marshalBehind(front string, m message) (raw []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			raw, err = nil, fmt.Errorf("marshal %T: %v", m, cause)
		}
	}()
	sized, ok := m.(sizedMessage)
	if front == "" || !ok {
		raw, err = m.Marshal()
		if err != nil || front == "" {
			return raw, err
		}
		return append([]byte(front), raw...), nil
	}
	raw = make([]byte, len(front)+sized.Size())
	copy(raw, front)
	n, err := sized.MarshalToSizedBuffer(raw[len(front):])
	if err != nil {
		return nil, err
	}
	return raw[:len(front)+n], nil
}
