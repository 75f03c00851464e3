package weir

import (
	"fmt"
	"reflect"

	"sigs.k8s.io/json"

	"github.com/weirproject/weir/internal/wire"
)

// transcoder returns a reflector's Transcode for a type that is held as protobuf: it makes the
// protobuf of an object that a server gave as JSON, because it has nothing else. It is nil for
// types that are held as JSON.
func (k *kind) transcoder(ptr reflect.Type) func(dst, object []byte) ([]byte, error) {
	if _, ok := reflect.Zero(ptr).Interface().(interface{ Marshal() ([]byte, error) }); !ok || k.encoding != wire.Protobuf {
		return nil
	}
	return func(dst, object []byte) ([]byte, error) {
		value := reflect.New(ptr.Elem()).Interface()
		if err := json.UnmarshalCaseSensitivePreserveInts(object, value); err != nil {
			return nil, err
		}
		raw, err := value.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			return nil, fmt.Errorf("%s as protobuf: %w", ptr.Elem(), err)
		}
		return append(dst, raw...), nil
	}
}
