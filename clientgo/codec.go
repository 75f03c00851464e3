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

// codec turns the bytes of an informer's objects into values of its example's type, and back.
type codec struct {
	goType   reflect.Type    // a pointer to a struct; nil: anything, which is never encoded
	protobuf *decode.Decoder // nil: the type has no protobuf form
	gvk      schema.GroupVersionKind
	itemType atomic.Pointer[wire.TypeMeta] // what lists say that their items are
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

// learn notes what the items of lists are: in JSON those of built-in kinds do not say so themselves.
func (c *codec) setItemType(t wire.TypeMeta) { c.itemType.Store(&t) }

// decode makes a value of its bytes, which the caller may change. They say themselves which encoding they are in: a message of
// protobuf cannot begin with a brace, which would be field 15 of a kind that no object has.
func (c *codec) decode(raw []byte) (any, error) { return c.decodeBy(raw, (*decode.Decoder).Decode) }

// decodeShared is decode for values that are only read.
func (c *codec) decodeShared(raw []byte) (any, error) {
	return c.decodeBy(raw, (*decode.Decoder).DecodeShared)
}

// decodeVersions is decode for two versions of an object, which share nothing that can be changed.
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

// stamp gives an object the kind that its list or the example says, where the object needs one.
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

// encode makes bytes of a value: protobuf where its type has it, else JSON. It reports false where something would be
// lost: the value is of another type, says its kind though protobuf has no room for it, or decodes to something else. A nil
// slice or map in place of an empty one, and a time's zone, are no loss.
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

// keepsJSON reports whether an unstructured object comes back as it is from its JSON; false may also mean that this is not known.
func roundTripsJSON(value any) bool {
	u, ok := value.(*unstructured.Unstructured)
	return ok && u.GetKind() != "" && isPlainJSON(u.Object, maxPlainDepth) // one without a kind is given one: see stamp
}

// maxPlainDepth bounds what isPlainJSON judges.
const maxPlainDepth = 100

// isPlainJSON reports whether a value is made of what JSON is decoded into, and of nothing that is written as something else: a whole
// number in a float64 comes back as an int64, and a nil map as no map.
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

// same reports whether raw decodes to value.
func (c *codec) decodesTo(raw []byte, value any) bool {
	decoded, err := c.decode(raw)
	return err == nil && equality.Semantic.DeepEqual(decoded, value)
}
