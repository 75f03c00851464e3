package codec

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A protobuf value that states another kind than Decode would set has the kind in a field before
// its message, which has no room for it. The field is a message with the apiVersion and the kind as
// its fields 1 and 2, as in runtime.Unknown. Readers that do not know the field skip it, and no
// field of Kubernetes' types has its number, or one near it. These bytes stay in the process: they
// are neither received from a server nor sent to one.
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

// Kind is the apiVersion and kind before an object's message. It is immutable. Usually all objects
// of an informer share one.
type Kind struct {
	stated metav1.TypeMeta
	field  string // with its tag
}

// CutKind returns the kind before an object's message, or nil if there is none, and the message.
// The message aliases raw.
func (c *Codec) CutKind(raw []byte) (k *Kind, message []byte) {
	if len(raw) < len(kindTag) || string(raw[:len(kindTag)]) != kindTag {
		return nil, raw
	}
	if k := c.kind.Load(); k != nil && len(raw) >= len(k.field) && string(raw[:len(k.field)]) == k.field {
		return k, raw[len(k.field):]
	}
	if k = parseKind(raw); k == nil {
		return nil, raw // it is not Weir's, and is skipped like any unknown field
	}
	c.kind.Store(k)
	return k, raw[len(k.field):]
}

// parseKind returns the kind in the first field of raw, or nil if the field does not have kindOf's
// form.
func parseKind(raw []byte) *Kind {
	content, n := protowire.ConsumeBytes(raw[len(kindTag):])
	apiVersion, content, ok := cutText(content, apiVersionTag)
	name, content, okToo := cutText(content, nameTag)
	if n < 0 || !ok || !okToo || len(content) > 0 {
		return nil
	}
	return &Kind{metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(name)}, string(raw[:len(kindTag)+n])}
}

// cutText returns the text in the first field of a message, which must have the tag, and the rest
// of the message.
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

// kindOf returns the field before the messages of values that state an apiVersion and kind.
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

// front returns the field before a value's message: none, if the value states the kind that Decode
// would set anyway. The type must have a protobuf form.
func (c *Codec) front(value any) string {
	stated := c.protobuf.TypeMeta(value)
	if stated == nil || *stated == c.given {
		return ""
	}
	return c.kindOf(stated).field
}

// SetKind sets the kind that preceded a value's message, and returns the value. Without a kind it
// sets the same as Decode.
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

// sizedMessage is a message whose Marshal only allocates a buffer and fills it.
type sizedMessage interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// marshalBehind returns a message's bytes after a prefix. It returns an error if the type's own
// code panics, as generated code does at a nil element of a slice of pointers.
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
