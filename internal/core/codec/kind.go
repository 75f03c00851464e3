package codec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// kindField is the number of a field that the codec adds to a protobuf message. A protobuf message
// has no field for the object's apiVersion and kind. So the codec writes them before the message,
// in a field with this number, if a value states a kind other than the one that Decode would set.
// The field is a runtime.TypeMeta, as in runtime.Unknown. Without it, a value that states its kind
// would be encoded as JSON, which costs 20 times the CPU. Readers that do not know the field skip
// it. No field of Kubernetes' types has this number, or one near it. Weir neither receives these
// bytes from a server nor sends them.
const kindField = 60_000

var kindTag = string(protowire.AppendTag(nil, kindField, protowire.BytesType))

// kind is the apiVersion and kind before an object's message. It is immutable. Usually all objects
// of an informer share one kind.
type kind struct {
	stated metav1.TypeMeta
	field  string // the encoded field, including its tag
}

// cutKind splits raw into the kind before the message and the message. k is nil if there is no
// kind. The message aliases raw.
func (c *Codec) cutKind(raw []byte) (k *kind, message []byte) {
	if len(raw) < len(kindTag) || string(raw[:len(kindTag)]) != kindTag {
		return nil, raw
	}
	if k := c.kind.Load(); k != nil && len(raw) >= len(k.field) && string(raw[:len(k.field)]) == k.field {
		return k, raw[len(k.field):]
	}
	if k = parseKind(raw); k == nil {
		return nil, raw // Weir did not write it: like any unknown field, it is skipped
	}
	c.kind.Store(k)
	return k, raw[len(k.field):]
}

// parseKind returns the kind in the first field of raw, which must have kindTag. It returns nil if
// the field is malformed.
func parseKind(raw []byte) *kind {
	content, n := protowire.ConsumeBytes(raw[len(kindTag):])
	var stated runtime.TypeMeta
	if n < 0 || stated.Unmarshal(content) != nil {
		return nil
	}
	return &kind{metav1.TypeMeta{APIVersion: stated.APIVersion, Kind: stated.Kind}, string(raw[:len(kindTag)+n])}
}

// kindOf returns the kind for values that state the given apiVersion and kind.
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

// marshalProtobuf encodes a value as protobuf. It writes the kind that the value states before the
// message, unless Decode sets the same kind without it.
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

// setKind sets the apiVersion and kind of a decoded value and returns the value. k is the kind that
// preceded its message. If k is nil, setKind sets them to c.given.
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

// marshalMessage encodes a message. If the type's own Marshal panics, as generated code does at a
// nil element of a slice of pointers, it returns an error.
func marshalMessage(m protoMessage) (raw []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			raw, err = nil, fmt.Errorf("marshal %T: %v", m, cause)
		}
	}()
	return m.Marshal()
}
