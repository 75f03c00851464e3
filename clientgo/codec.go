package clientgo

import (
	"encoding/json"
	"math"
	"reflect"
	"sync/atomic"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/weirproject/weir/internal/decode"
	"github.com/weirproject/weir/internal/wire"
)

// codec decodes the bytes of an informer's objects into values of its example's type, and encodes
// them.
type codec struct {
	goType   reflect.Type    // a pointer to a struct; nil for any type, which is never encoded
	protobuf *decode.Decoder // nil if the type has no protobuf form
	gvk      schema.GroupVersionKind
	itemType atomic.Pointer[wire.TypeMeta] // the type that lists state for their items
}

type protobufMessage interface {
	decode.Message
	Marshal() ([]byte, error)
}

func newCodec(example runtime.Object) *codec {
	c := &codec{}
	if example == nil {
		return c
	}
	if t := reflect.TypeOf(example); t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		c.goType, c.protobuf = t, decode.For(t)
	}
	switch example.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		c.gvk = example.GetObjectKind().GroupVersionKind()
	}
	return c
}

// setItemType sets the type of lists' items: in JSON, items of built-in kinds do not state their
// own.
func (c *codec) setItemType(t wire.TypeMeta) { c.itemType.Store(&t) }

// decode decodes an object. The caller may change the result. The bytes themselves show their
// encoding: no protobuf message of an object begins with a brace, which would be field 15.
func (c *codec) decode(raw []byte) (any, error) { return c.decodeBy(raw, (*decode.Decoder).Decode) }

// decodeShared is decode for values that are only read. They may share memory with other values.
func (c *codec) decodeShared(raw []byte) (any, error) {
	return c.decodeBy(raw, (*decode.Decoder).DecodeShared)
}

// decodeVersions is decode for two versions of an object. They share nothing mutable.
func (c *codec) decodeVersions(was, is []byte) (old, fresh any, err error) {
	if c.protobuf != nil && isProtobuf(was) && isProtobuf(is) {
		if old, fresh, err = c.protobuf.DecodeVersions(was, is); err != nil {
			return nil, nil, err
		}
		return c.setTypeMeta(old), c.setTypeMeta(fresh), nil
	}
	if old, err = c.decode(was); err == nil {
		fresh, err = c.decode(is)
	}
	return old, fresh, err
}

func isProtobuf(raw []byte) bool { return len(raw) == 0 || raw[0] != '{' }

func (c *codec) decodeBy(raw []byte, decode func(*decode.Decoder, []byte) (any, error)) (any, error) {
	if isProtobuf(raw) {
		if c.protobuf == nil {
			return nil, errNotProtobuf
		}
		object, err := decode(c.protobuf, raw)
		if err != nil {
			return nil, err
		}
		return c.setTypeMeta(object), nil
	}
	object := reflect.New(c.goType.Elem()).Interface()
	target := object
	if u, ok := object.(*unstructured.Unstructured); ok {
		target = &u.Object
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, target); err != nil {
		return nil, err
	}
	return c.setTypeMeta(object), nil
}

// setTypeMeta gives an object the type that its list or the example states, if the object needs
// one.
func (c *codec) setTypeMeta(object any) any {
	switch object := object.(type) {
	case *metav1.PartialObjectMetadata:
		if !c.gvk.Empty() {
			object.SetGroupVersionKind(c.gvk)
		}
	case *unstructured.Unstructured:
		if object.GetKind() != "" {
			break
		}
		if item := c.itemType.Load(); item != nil {
			object.SetAPIVersion(item.APIVersion)
			object.SetKind(item.Kind)
		} else if !c.gvk.Empty() {
			object.SetGroupVersionKind(c.gvk)
		}
	}
	return object
}

// encode encodes a value: as protobuf if its type has that and the value states no kind, which
// protobuf has no room for; else as JSON. It reports false if the value has another type or would
// decode to something else. Nil slices and maps in place of empty ones, and a time's zone, do not
// count as a difference.
func (c *codec) encode(value any) ([]byte, bool) {
	if c.goType == nil || reflect.TypeOf(value) != c.goType || reflect.ValueOf(value).IsNil() {
		return nil, false
	}
	if message, ok := value.(protobufMessage); ok && value.(runtime.Object).GetObjectKind().GroupVersionKind().Empty() {
		if raw, err := message.Marshal(); err == nil && (c.protobuf.Keeps(value) || c.decodesTo(raw, value)) {
			return raw, true
		}
	}
	raw, err := marshalJSON(value)
	if err != nil || !roundTripsJSON(value) && !c.decodesTo(raw, value) {
		return nil, false
	}
	return raw, true
}

func marshalJSON(value any) ([]byte, error) {
	if u, ok := value.(*unstructured.Unstructured); ok {
		return json.Marshal(u.Object)
	}
	return json.Marshal(value)
}

// roundTripsJSON reports whether an unstructured object is known to decode to itself from its JSON.
func roundTripsJSON(value any) bool {
	u, ok := value.(*unstructured.Unstructured)
	return ok && u.GetKind() != "" && isPlainJSON(u.Object, maxPlainDepth) // setTypeMeta would give a kind to one without
}

// maxPlainDepth bounds the depth to which isPlainJSON looks.
const maxPlainDepth = 100

// isPlainJSON reports whether a value consists of what JSON decodes to, and encodes to itself. A
// whole number in a float64 comes back as an int64, and a nil map as null.
func isPlainJSON(value any, depth int) bool {
	if depth == 0 {
		return false
	}
	switch value := value.(type) {
	case nil, bool, int64:
		return true
	case string:
		return utf8.ValidString(value)
	case float64:
		return value != math.Trunc(value) && !math.IsNaN(value)
	case []any:
		for _, v := range value {
			if !isPlainJSON(v, depth-1) {
				return false
			}
		}
		return value != nil
	case map[string]any:
		for key, v := range value {
			if !utf8.ValidString(key) || !isPlainJSON(v, depth-1) {
				return false
			}
		}
		return value != nil
	}
	return false
}

// decodesTo reports whether raw decodes to value.
func (c *codec) decodesTo(raw []byte, value any) bool {
	decoded, err := c.decode(raw)
	return err == nil && equality.Semantic.DeepEqual(decoded, value)
}
