package codec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A protobuf value that states another kind than Decode would set has the kind in a field before
// its message, which has no room for it. The field is a runtime.TypeMeta, as in runtime.Unknown.
// Without it a value that states its kind would be JSON, and cost 20 times the CPU. Readers that do
// not know the field skip it, and no field of Kubernetes' types has its number, or one near it.
// These bytes stay in the process: they are neither received from a server nor sent to one.
const kindField = 60_000

var kindTag = string(protowire.AppendTag(nil, kindField, protowire.BytesType))

// kind is the apiVersion and kind before an object's message. It is immutable. Usually all objects
// of an informer share one.
type kind struct {
	stated metav1.TypeMeta
	field  string // with its tag
}

// cutKind returns the kind before an object's message, or nil if there is none, and the message.
// The message aliases raw.
func (c *Codec) cutKind(raw []byte) (k *kind, message []byte) {
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

// parseKind returns the kind in the first field of raw, which has the kind's tag, or nil if it is
// malformed.
func parseKind(raw []byte) *kind {
	content, n := protowire.ConsumeBytes(raw[len(kindTag):])
	var stated runtime.TypeMeta
	if n < 0 || stated.Unmarshal(content) != nil {
		return nil
	}
	return &kind{metav1.TypeMeta{APIVersion: stated.APIVersion, Kind: stated.Kind}, string(raw[:len(kindTag)+n])}
}

// kindOf returns the field before the messages of values that state an apiVersion and kind.
func (c *Codec) kindOf(stated *metav1.TypeMeta) (*kind, error) {
	if k := c.kind.Load(); k != nil && k.stated == *stated {
		return k, nil
	}
	content, err := (&runtime.TypeMeta{APIVersion: stated.APIVersion, Kind: stated.Kind}).Marshal()
	if err != nil {
		return nil, err
	}
	k := &kind{*stated, string(protowire.AppendBytes([]byte(kindTag), content))}
	c.kind.Store(k)
	return k, nil
}

// marshalProtobuf encodes a value as protobuf. The kind that it states precedes the message, unless
// Decode would set it anyway.
func (c *Codec) marshalProtobuf(value protoMessage) ([]byte, error) {
	raw, err := marshalMessage(value)
	stated := c.protobuf.typeMetaOf(value)
	if err != nil || stated == nil || *stated == c.given {
		return raw, err
	}
	k, err := c.kindOf(stated)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(k.field), raw), nil
}

// setKind sets the kind that preceded a value's message, and returns the value. Without a kind it
// sets the same as Decode.
func (c *Codec) setKind(value any, k *kind) any {
	switch stated := c.protobuf.typeMetaOf(value); {
	case stated == nil:
	case k == nil:
		*stated = c.given
	default:
		*stated = k.stated
	}
	return value
}

// marshalMessage returns an error if the type's own code panics, as generated code does at a nil
// element of a slice of pointers.
func marshalMessage(m protoMessage) (raw []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			raw, err = nil, fmt.Errorf("marshal %T: %v", m, cause)
		}
	}()
	return m.Marshal()
}
