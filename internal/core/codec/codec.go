package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/weirproject/weir/internal/core/wire"
)

// Codec decodes the bytes of an informer's objects into values of one type, and encodes them. Its
// methods are safe for concurrent use.
type Codec struct {
	// goType is a pointer to a struct. nil represents any type, which is never encoded.
	goType   reflect.Type
	protobuf *decoder                      // nil if the type has no protobuf form
	gvk      schema.GroupVersionKind       // the kind that Of's example states
	given    metav1.TypeMeta               // set on protobuf objects that have no kind before them
	kind     atomic.Pointer[kind]          // the last one that was read or created
	itemType atomic.Pointer[wire.TypeMeta] // the type that lists state for their items

	fields       func() fieldTable // of the struct and of its fields; nil if it is custom
	incomparable atomic.Bool       // Equal could not compare a value of the type, which is custom
}

// ErrNotProtobuf is returned for an object in protobuf of a type that has no protobuf form.
var ErrNotProtobuf = errors.New("the type has no protobuf form")

// New returns the codec of a type. If the type is nil or no pointer to a struct, the codec has no
// type. Such a codec cannot decode, and Encode always returns false.
func New(t reflect.Type) *Codec {
	c := &Codec{}
	if t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		c.goType, c.protobuf = t, decoderFor(t)
	}
	c.fields = sync.OnceValue(c.fieldTable)
	return c
}

// Of returns the codec of an example's type. If the example is unstructured or metadata only, the
// codec sets the example's kind on objects that state none; see setTypeMeta. For nil it returns the
// same as New.
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

// OfStruct returns the codec of the pointers to a struct's type, such as corev1.Pod. If the type is
// nil, it is the codec of unstructured objects.
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

// New returns a new zero value of the type, with the kind that the codec sets.
func (c *Codec) New() any { return c.setTypeMeta(reflect.New(c.goType.Elem()).Interface()) }

// SetItemType sets the type of lists' items: in JSON, items of built-in kinds do not state their
// own.
func (c *Codec) SetItemType(t wire.TypeMeta) { c.itemType.Store(&t) }

// ItemType returns the last argument of SetItemType, or the zero value.
func (c *Codec) ItemType() wire.TypeMeta {
	if t := c.itemType.Load(); t != nil {
		return *t
	}
	return wire.TypeMeta{}
}

// Decode decodes an object. The caller may change the result. Decode detects the encoding: no
// protobuf message of an object starts with a brace, which would be field 15.
func (c *Codec) Decode(raw []byte) (any, error) { return c.decode(raw, false) }

// DecodeShared decodes an object for callers that only read it. The result may share memory with
// other values.
func (c *Codec) DecodeShared(raw []byte) (any, error) { return c.decode(raw, true) }

// DecodeUpdate decodes two versions of an object. old is the value of was, or nil: then it decodes
// both. The results share nothing mutable, and the caller may change them.
func (c *Codec) DecodeUpdate(old any, was, is []byte) (_, fresh any, err error) {
	if old == nil && c.protobuf != nil && isProtobuf(was) && isProtobuf(is) {
		oldKind, oldMessage := c.cutKind(was)
		kind, message := c.cutKind(is)
		if old, fresh, ok := c.protobuf.decodeVersionsByTables(oldMessage, message); ok {
			return c.setKind(old, oldKind), c.setKind(fresh, kind), nil
		}
		if old, err = c.Decode(was); err != nil {
			return nil, nil, err
		}
		if fresh, ok := c.decodeCopy(old, oldMessage, message); ok {
			return old, c.setKind(fresh, kind), nil
		}
	}
	if old == nil {
		old, err = c.Decode(was)
	}
	if err == nil {
		fresh, err = c.Decode(is)
	}
	return old, fresh, err
}

func isProtobuf(raw []byte) bool { return len(raw) == 0 || raw[0] != '{' }

// decode returns a panic of the type's own Unmarshal or UnmarshalJSON as an error.
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
		object, err := c.protobuf.unmarshal(message, sharing, nil)
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

// setTypeMeta sets the type of an object that needs one, and returns the object. Metadata receives
// the example's type. An unstructured object without a kind receives the type that its list states,
// or else the example's. If none is stated, the object is unchanged.
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
	}
	return object
}

// Encode encodes a value for Decode: as protobuf if its type has that, with its apiVersion and kind
// before it unless Decode would set them anyway, otherwise as JSON. It reports false if the value
// has another type, would decode to another value, or if Equal cannot compare values of its type.
// Nil slices and maps instead of empty ones, and a time's zone, do not count as a difference.
func (c *Codec) Encode(value any) ([]byte, bool) {
	if c.goType == nil || reflect.TypeOf(value) != c.goType || reflect.ValueOf(value).IsNil() || c.incomparable.Load() {
		return nil, false
	}
	if m, ok := value.(protoMessage); ok {
		if raw, err := c.marshalProtobuf(m); err == nil && (c.protobuf.keeps(value) || c.decodesTo(raw, value)) {
			return raw, true
		}
	}
	raw, err := marshalJSON(value)
	if err != nil || !roundTripsJSON(value) && !c.decodesTo(raw, value) {
		return nil, false
	}
	return raw, true
}

// Marshal encodes an object in an encoding. Protobuf loses the kind that the object states. Marshal
// returns ErrNotProtobuf if the encoding is protobuf and the object's type has no protobuf form.
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

// marshalJSON returns a panic of the type's own MarshalJSON as an error.
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

// roundTripsJSON reports whether an unstructured object certainly decodes to itself from its JSON.
func roundTripsJSON(value any) bool {
	u, ok := value.(*unstructured.Unstructured)
	// setTypeMeta would set a kind on an object without one.
	return ok && u.GetKind() != "" && isPlainJSON(u.Object, maxPlainDepth)
}

// maxPlainDepth limits the depth that isPlainJSON visits.
const maxPlainDepth = 100

// isPlainJSON reports whether a value consists of types to which JSON decodes, and encodes to
// itself. A whole number in a float64 decodes to an int64, and a nil map encodes to null.
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
func (c *Codec) decodesTo(raw []byte, value any) bool {
	decoded, err := c.Decode(raw)
	if err != nil {
		return false
	}
	equal, ok := compare(decoded, value)
	if !ok && !isTrusted(c.goType.Elem()) {
		c.incomparable.Store(true)
	}
	return equal
}
