package watchcache

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
)

// representation converts stored objects to the representation that one client accepts. It has one
// scratch buffer, so only one goroutine may use it.
type representation struct {
	representationKey
	resource *Resource
	codec    *codec.Codec // of the resource's objects
	stored   wire.Encoding
	scratch  []byte
}

// representationKey describes the representation that a client accepts. It identifies the
// representation in caches.
type representationKey struct {
	request.MediaType
	rowObject metav1.IncludeObjectPolicy // which part of the object a row of a table includes
}

// negotiate returns the representation that a request accepts, or an error with code 406.
func (c *Cache) negotiate(a request.Accept, o *request.Options) (representation, error) {
	mt, ok := a.Negotiate(c.canServe)
	if !ok {
		return representation{}, errNotAcceptable()
	}
	key := representationKey{mt, metav1.IncludeObjectPolicy(o.IncludeObject)}
	return representation{representationKey: key, resource: c.resource, codec: c.codec, stored: c.encoding}, nil
}

// Encoding returns the encoding in which the cache serves objects to a client with this Accept
// header, and false if the client accepts none.
func (c *Cache) Encoding(a request.Accept) (wire.Encoding, bool) {
	mt, ok := a.Negotiate(c.canServe)
	return mt.Encoding, ok
}

// canServe reports whether the cache can serve objects in this media range. kube-apiserver accepts
// application/* for custom resources only.
func (c *Cache) canServe(mr request.MediaRange) bool {
	switch {
	case mr.Wildcards == 1 && !c.resource.Custom:
		return false
	case c.encoding == wire.JSON:
		return mr.Encoding == wire.JSON || mr.Shape == request.MetadataOnly
	}
	return mr.Encoding == wire.Protobuf || c.resource.Type != nil || mr.Shape == request.MetadataOnly
}

// checkForm returns an error if the client requested PartialObjectMetadataList and the response is
// one object, or if it requested PartialObjectMetadata and the response is a list. It also returns
// the error of checkRows. list says that the response is a list.
func (rep *representation) checkForm(list bool) error {
	switch {
	case rep.Shape != request.MetadataOnly || rep.List == list:
		return rep.checkRows()
	case list:
		return notAcceptable("you requested PartialObjectMetadata, but the requested object is a list (" + rep.resource.ListKind + ")")
	}
	return notAcceptable("you requested PartialObjectMetadataList, but the requested object is not a list (" + rep.resource.Kind + ")")
}

// checkRows returns an error if a Table's rows cannot include the part of the object that the
// client requested.
func (rep *representation) checkRows() error {
	if rep.Shape != request.Table {
		return nil
	}
	if errs := validation.ValidateTableOptions(&metav1.TableOptions{IncludeObject: rep.rowObject}); len(errs) > 0 {
		return apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs[0].Error())
	}
	return nil
}

// storedAsIs reports whether the cache sends stored bytes unchanged.
func (rep *representation) storedAsIs() bool {
	return rep.Shape == request.Whole && rep.stored == rep.Encoding && rep.resource.StoredAs == "" && rep.resource.conversion.typeMeta == nil
}

// typeMeta returns the apiVersion and kind of a single object.
func (rep *representation) typeMeta() wire.TypeMeta {
	switch rep.Shape {
	case request.MetadataOnly:
		return wire.TypeMeta{APIVersion: metav1.GroupName + "/" + rep.Version, Kind: "PartialObjectMetadata"}
	case request.Table:
		return wire.TypeMeta{APIVersion: metav1.GroupName + "/" + rep.Version, Kind: "Table"}
	}
	return rep.resource.typeMeta()
}

func (rep *representation) listTypeMeta() wire.TypeMeta {
	if rep.Shape == request.MetadataOnly {
		return wire.TypeMeta{APIVersion: metav1.GroupName + "/" + rep.Version, Kind: "PartialObjectMetadataList"}
	}
	return rep.resource.listTypeMeta()
}

// listForm returns the form of a list in JSON.
func (rep *representation) listForm() wire.ListForm {
	switch {
	case rep.Shape == request.MetadataOnly:
		return wire.MetadataList
	case rep.resource.Custom:
		return wire.UnstructuredList
	}
	return wire.TypedList
}

// object converts stored bytes. The result is valid until the next call, and may alias raw.
func (rep *representation) object(raw []byte) ([]byte, error) {
	var err error
	switch {
	case rep.storedAsIs():
		return raw, nil
	case rep.Shape == request.MetadataOnly:
		rep.scratch, err = rep.appendMetadata(rep.scratch[:0], raw)
	case rep.Shape == request.Table:
		rep.scratch, err = rep.appendTable(rep.scratch[:0], raw)
	case rep.stored == wire.JSON && rep.resource.StoredAs == "":
		if rest, ok := rep.resource.conversion.cutTypeMeta(raw); ok {
			rep.scratch = append(append(rep.scratch[:0], '{'), rest...)
			return rep.scratch, nil
		}
		return raw, nil
	case rep.stored == wire.JSON:
		rep.scratch, err = wire.AppendWithAPIVersion(rep.scratch[:0], raw, rep.resource.typeMeta().APIVersion)
	default:
		rep.scratch, err = rep.appendJSON(rep.scratch[:0], raw)
	}
	return rep.scratch, err
}

func (rep *representation) appendJSON(dst, raw []byte) ([]byte, error) {
	v, err := rep.codec.DecodeShared(raw, nil)
	if err != nil {
		return dst, err
	}
	text, err := codec.Marshal(wire.JSON, withNestedKinds(v))
	return append(dst, text...), err
}

// metadataField is the protobuf field number of metadata in every API type and in
// PartialObjectMetadata.
const metadataField = 1

// metadataCodec decodes the metadata of any object.
var metadataCodec = codec.Of(&metav1.PartialObjectMetadata{})

// partialMetadata decodes the PartialObjectMetadata of an object.
func (rep *representation) partialMetadata(raw []byte) (*metav1.PartialObjectMetadata, error) {
	var err error
	if rep.stored == wire.Protobuf {
		if raw, err = appendField(nil, raw, metadataField); err != nil {
			return nil, err
		}
	}
	value, err := metadataCodec.Decode(raw, nil)
	if err != nil {
		return nil, err
	}
	p := value.(*metav1.PartialObjectMetadata) // the codec's type
	p.TypeMeta = metav1.TypeMeta{APIVersion: metav1.GroupName + "/" + rep.Version, Kind: "PartialObjectMetadata"}
	rep.resource.conversion.removeAnnotations(p)
	return p, nil
}

func (rep *representation) appendMetadata(dst, raw []byte) ([]byte, error) {
	if rep.stored == wire.Protobuf && rep.Encoding == wire.Protobuf && rep.resource.conversion.annotations == nil {
		return appendField(dst, raw, metadataField)
	}
	p, err := rep.partialMetadata(raw)
	if err != nil {
		return dst, err
	}
	out, err := codec.Marshal(rep.Encoding, p)
	return append(dst, out...), err
}

// appendField appends the fields of message with this field number, including their tags.
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

// bookmark encodes the object of a bookmark, which has only metadata.
func (rep *representation) bookmark(p *metav1.PartialObjectMetadata) ([]byte, error) {
	switch {
	case rep.Shape == request.Table:
		t := rep.newTable()
		t.ResourceVersion = p.ResourceVersion
		return codec.Marshal(rep.Encoding, t)
	case rep.Shape == request.MetadataOnly:
		return codec.Marshal(rep.Encoding, p)
	case rep.resource.Custom:
		return codec.Marshal(rep.Encoding, rep.resource.customBookmark(p))
	}
	return codec.Marshal(rep.Encoding, rep.resource.emptyObject(p))
}
