package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/weirproject/weir/internal/core/wire"
)

// Codec decodes the bytes of an informer's objects into values of one type, and encodes them. It is
// safe for concurrent use.
type Codec struct {
	// goType is a pointer to a struct. If it is nil, the codec has no type and encodes nothing.
	goType   reflect.Type
	protobuf *decoder                      // nil if the type has no protobuf form
	gvk      schema.GroupVersionKind       // the kind of Of's example
	given    metav1.TypeMeta               // set on protobuf objects that state no kind
	kind     atomic.Pointer[kind]          // the last kind that was decoded or encoded
	itemType atomic.Pointer[wire.TypeMeta] // the item type that lists state

	incomparable atomic.Bool // Equal could not compare a value of the type, which is a custom type
}

// ErrNotProtobuf is returned for a protobuf object if the type has no protobuf form.
var ErrNotProtobuf = errors.New("the type has no protobuf form")

// New returns the codec of a type. If t is nil or not a pointer to a struct, the codec has no type:
// it cannot decode, and Encode always returns false.
func New(t reflect.Type) *Codec {
	c := &Codec{}
	if t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		c.goType, c.protobuf = t, decoderFor(t)
	}
	return c
}

// Of returns the codec of an example's type. If the example is unstructured or only metadata, the
// codec sets the example's kind on objects that state no kind; see setTypeMeta. Of(nil) returns the
// same as New(nil).
func Of(example runtime.Object) *Codec {
	c := New(reflect.TypeOf(example))
	switch example.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		c.gvk = example.GetObjectKind().GroupVersionKind()
	}
	if c.protobuf != nil && !c.gvk.Empty() {
		c.given.APIVersion, c.given.Kind = c.gvk.ToAPIVersionAndKind()
	}
	return c
}

// OfStruct returns the codec for pointers to the struct type t, such as corev1.Pod. If t is nil, it
// returns the codec of unstructured objects.
func OfStruct(t reflect.Type) *Codec {
	if t == nil {
		return Of(&unstructured.Unstructured{})
	}
	return New(reflect.PointerTo(t))
}

// HasProtobuf reports whether the type has a protobuf form.
func (c *Codec) HasProtobuf() bool { return c.protobuf != nil }

// Type returns the type, a pointer to a struct, or nil.
func (c *Codec) Type() reflect.Type { return c.goType }

// New returns a pointer to a new value. Its fields are zero, except for a kind that the codec sets.
func (c *Codec) New() any { return c.setTypeMeta(reflect.New(c.goType.Elem()).Interface()) }

// SetItemType sets the type of lists' items, because the items of JSON lists of built-in kinds do
// not state their type.
func (c *Codec) SetItemType(t wire.TypeMeta) { c.itemType.Store(&t) }

// ItemType returns the last argument of SetItemType, or the zero value.
func (c *Codec) ItemType() wire.TypeMeta {
	if t := c.itemType.Load(); t != nil {
		return *t
	}
	return wire.TypeMeta{}
}

// Decode decodes an object. The caller may change the result. Decode detects the encoding. If the
// first byte is a brace, the object is JSON: in protobuf a brace would be the tag of field 15, with
// which no object's message starts. earlier is an earlier version of the object, or nil. If
// earlier.Unread is true, Decode costs less. The result and earlier.Value share nothing mutable.
func (c *Codec) Decode(raw []byte, earlier *Version) (any, error) {
	if earlier != nil && earlier.Unread {
		if value, ok := c.decodeChanged(raw, earlier, false); ok {
			return value, nil
		}
	}
	return c.decode(raw, false)
}

// DecodeShared decodes an object for callers that only read it. The result may share memory with
// other values. If the metadata, spec or status has the same protobuf bytes as in the earlier
// version, the result shares that field with the earlier version. earlier may be nil.
func (c *Codec) DecodeShared(raw []byte, earlier *Version) (any, error) {
	if earlier != nil {
		if value, ok := c.decodeChanged(raw, earlier, true); ok {
			return value, nil
		}
	}
	return c.decode(raw, true)
}

func isProtobuf(raw []byte) bool { return len(raw) == 0 || raw[0] != '{' }

// decode decodes an object. If the type's own Unmarshal or UnmarshalJSON panics, decode returns the
// panic as an error.
func (c *Codec) decode(raw []byte, sharing bool) (value any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			value, err = nil, fmt.Errorf("unmarshal %s: panic: %v", c.goType, cause)
		}
	}()
	if isProtobuf(raw) {
		if c.protobuf == nil {
			return nil, ErrNotProtobuf
		}
		kind, message := c.cutKind(raw)
		object, err := c.protobuf.unmarshal(message, sharing)
		if err != nil {
			return nil, err
		}
		return c.setKind(object, kind), nil
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

// setTypeMeta sets the kind of an object if necessary, and returns the object. A
// PartialObjectMetadata receives the example's kind. An unstructured object without a kind receives
// the kind that its list states, or else the example's. If neither kind is known, the object is
// unchanged. A built-in type receives no kind, as in client-go: only JSON events state one, and
// client-go's typed clients remove it.
func (c *Codec) setTypeMeta(object any) any {
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
	default:
		if c.protobuf != nil && isTrusted(c.goType.Elem()) {
			return c.setKind(object, nil)
		}
	}
	return object
}

// Encode encodes a value for Decode. It uses protobuf if the type has a protobuf form, and
// otherwise JSON. It writes the value's apiVersion and kind before the protobuf message, unless
// Decode sets the same apiVersion and kind when they are missing. ok is false if the value does not
// have the codec's type, or if reflect.DeepEqual could distinguish it from the value that Decode
// would return, other than by the texts that quantities cache. ok is also false if Equal cannot
// compare values of the type.
func (c *Codec) Encode(value any) ([]byte, bool) {
	if c.goType == nil || reflect.TypeOf(value) != c.goType || reflect.ValueOf(value).IsNil() || c.incomparable.Load() {
		return nil, false
	}
	if m, ok := value.(protoMessage); ok {
		keeps := c.protobuf.keeps(value)
		if !keeps && isTrusted(c.goType.Elem()) {
			return nil, false // rarely does JSON preserve more, and it costs much more to find out
		}
		if raw, err := c.marshalProtobuf(m); err == nil && (keeps || c.decodesTo(raw, value)) {
			return raw, true
		}
	}
	raw, err := marshalJSON(value)
	if err != nil || !roundTripsJSON(value) && !c.decodesTo(raw, value) {
		return nil, false
	}
	return raw, true
}

// Marshal encodes an object in the given encoding. In protobuf, the result does not contain the
// kind that the object states. Marshal returns ErrNotProtobuf if enc is protobuf and the object's
// type has no protobuf form.
func Marshal(enc wire.Encoding, object any) ([]byte, error) {
	if enc == wire.JSON {
		return marshalJSON(object)
	}
	m, ok := object.(protoMessage)
	if !ok {
		return nil, ErrNotProtobuf
	}
	return marshalMessage(m)
}

// marshalJSON encodes a value. If the type's own MarshalJSON panics, marshalJSON returns the panic
// as an error.
func marshalJSON(value any) (raw []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			raw, err = nil, fmt.Errorf("marshal %T: panic: %v", value, cause)
		}
	}()
	if u, ok := value.(*unstructured.Unstructured); ok {
		return json.Marshal(u.Object)
	}
	return json.Marshal(value)
}

// roundTripsJSON reports whether encoding a value as JSON and decoding the result certainly returns
// an equal value. It returns true only for unstructured objects.
func roundTripsJSON(value any) bool {
	u, ok := value.(*unstructured.Unstructured)
	// For an object without a kind, Decode may set one, and the objects would differ.
	return ok && u.GetKind() != "" && isPlainJSON(u.Object, maxPlainDepth)
}

// maxPlainDepth is the maximum nesting that isPlainJSON accepts.
const maxPlainDepth = 100

// isPlainJSON reports whether a value consists only of types to which JSON decodes, with values
// that JSON preserves. JSON does not preserve these values: a float64 that is a whole number
// decodes to an int64, a nil map or slice encodes to null, invalid UTF-8 is replaced, and NaN
// cannot be encoded.
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

// decodesTo reports whether Decode of raw returns a value that reflect.DeepEqual does not
// distinguish from value.
func (c *Codec) decodesTo(raw []byte, value any) bool {
	decoded, err := c.decode(raw, false)
	if err != nil {
		return false
	}
	equal, ok := compare(decoded, value)
	if !ok && !isTrusted(c.goType.Elem()) {
		c.incomparable.Store(true)
	}
	return equal && reflect.DeepEqual(decoded, value)
}
