package watchcache

import (
	"encoding/json"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/wire"
)

// form turns stored objects into what one client asked for. It keeps one scratch buffer; one goroutine uses it.
type form struct {
	accepted
	resource *Resource
	stored   wire.Encoding
	rows     metav1.IncludeObjectPolicy // what rows of a table carry
	scratch  []byte
}

// formKey is what of a form decides how an object looks in it.
type formKey struct {
	accepted
	rows metav1.IncludeObjectPolicy
}

func (f *form) key() formKey { return formKey{f.accepted, f.rows} }

// can says whether objects of the cache can be served like this.
func (c *Cache) can(a accepted) bool {
	if c.encoding == wire.JSON {
		return a.enc == wire.JSON || a.shape == metadataOnly
	}
	return a.enc == wire.Protobuf || c.resource.Type != nil || a.shape == metadataOnly
}

// asIs says whether stored bytes go out unchanged.
func (f *form) asIs() bool {
	return f.shape == whole && f.stored == f.enc && f.resource.StoredAs == ""
}

// typeMeta is the kind of a single object, listTypeMeta of a list of them.
func (f *form) typeMeta() wire.TypeMeta {
	switch f.shape {
	case metadataOnly:
		return wire.TypeMeta{APIVersion: metav1.GroupName + "/" + f.version, Kind: "PartialObjectMetadata"}
	case table:
		return wire.TypeMeta{APIVersion: metav1.GroupName + "/" + f.version, Kind: "Table"}
	}
	return f.resource.typeMeta()
}

func (f *form) listTypeMeta() wire.TypeMeta {
	if f.shape == metadataOnly {
		return wire.TypeMeta{APIVersion: metav1.GroupName + "/" + f.version, Kind: "PartialObjectMetadataList"}
	}
	return f.resource.listTypeMeta()
}

// object returns an object in the form, from its stored bytes. The result is valid until the next call, and may be raw itself.
func (f *form) object(raw []byte) ([]byte, error) {
	var err error
	switch {
	case f.asIs():
		return raw, nil
	case f.shape == metadataOnly:
		f.scratch, err = f.appendMetadata(f.scratch[:0], raw)
	case f.shape == table:
		f.scratch, err = f.appendTable(f.scratch[:0], raw)
	case f.stored == wire.JSON:
		f.scratch, err = appendAPIVersion(f.scratch[:0], raw, f.resource.typeMeta().APIVersion)
	default:
		f.scratch, err = f.appendJSON(f.scratch[:0], raw)
	}
	return f.scratch, err
}

// message is what generated API types can do.
type message interface {
	Unmarshal([]byte) error
}

// decode makes the Go object of stored bytes.
func (r *Resource) decode(enc wire.Encoding, raw []byte) (any, error) {
	if r.Type == nil {
		return nil, fmt.Errorf("watchcache: no Go type for %s", r.Kind)
	}
	v := reflect.New(r.Type).Interface()
	if enc == wire.JSON {
		return v, json.Unmarshal(raw, v)
	}
	m, ok := v.(message)
	if !ok {
		return nil, fmt.Errorf("watchcache: %T knows no protobuf", v)
	}
	return v, m.Unmarshal(raw)
}

func (f *form) appendJSON(dst, raw []byte) ([]byte, error) {
	v, err := f.resource.decode(f.stored, raw)
	if err != nil {
		return dst, err
	}
	text, err := json.Marshal(v)
	return append(dst, text...), err
}

// metadataField is the number of the metadata field in every API type and in PartialObjectMetadata.
const metadataField = 1

// partial makes the PartialObjectMetadata of an object.
func partial(enc wire.Encoding, raw []byte, version string) (*metav1.PartialObjectMetadata, error) {
	p := &metav1.PartialObjectMetadata{}
	if enc == wire.JSON {
		if err := json.Unmarshal(raw, p); err != nil {
			return nil, err
		}
	} else {
		metadata, err := appendField(nil, raw, metadataField)
		if err != nil {
			return nil, err
		}
		if err := p.Unmarshal(metadata); err != nil {
			return nil, err
		}
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: metav1.GroupName + "/" + version, Kind: "PartialObjectMetadata"}
	return p, nil
}

func (f *form) appendMetadata(dst, raw []byte) ([]byte, error) {
	if f.stored == wire.Protobuf && f.enc == wire.Protobuf {
		return appendField(dst, raw, metadataField)
	}
	p, err := partial(f.stored, raw, f.version)
	if err != nil {
		return dst, err
	}
	var out []byte
	if f.enc == wire.Protobuf {
		out, err = p.Marshal()
	} else {
		out, err = json.Marshal(p)
	}
	return append(dst, out...), err
}

// appendField appends the fields of a message that have this number, tags and all.
func appendField(dst, message []byte, number protowire.Number) ([]byte, error) {
	for len(message) > 0 {
		num, _, n := protowire.ConsumeField(message)
		if n < 0 {
			return dst, fmt.Errorf("watchcache: object: %w", protowire.ParseError(n))
		}
		if num == number {
			dst = append(dst, message[:n]...)
		}
		message = message[n:]
	}
	return dst, nil
}

// bookmark returns an object that says nothing but its metadata.
func (f *form) bookmark(p *metav1.PartialObjectMetadata) ([]byte, error) {
	if f.enc == wire.Protobuf {
		return p.Marshal()
	}
	if f.shape == table {
		t := f.newTable()
		t.ResourceVersion = p.ResourceVersion
		return json.Marshal(t)
	}
	return json.Marshal(p)
}
