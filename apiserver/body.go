package apiserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// bodyReader reads request bodies that contain an object of one kind.
type bodyReader struct {
	gvk    schema.GroupVersionKind
	goType reflect.Type // nil for unstructured objects
	values *codec.Codec
}

func newBodyReader(gvk schema.GroupVersionKind, goType reflect.Type) bodyReader {
	return bodyReader{gvk, goType, codec.OfStruct(goType)}
}

// toJSON returns the JSON of an object, with apiVersion and kind. The server applies patches to
// this JSON.
func (b *bodyReader) toJSON(o object) ([]byte, error) {
	text, err := codec.Marshal(wire.JSON, o)
	if err != nil {
		return nil, err
	}
	return wire.AppendObject(nil, wire.JSON, b.typeMeta(), text), nil
}

func (b *bodyReader) typeMeta() wire.TypeMeta {
	apiVersion, kind := b.gvk.ToAPIVersionAndKind()
	return wire.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// maxBody limits the body of a request, in bytes.
const maxBody = 3 << 20

// readBody reads the body of a request. It returns a 413 for a body larger than maxBody.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Header.Get("Content-Encoding") != "" {
		return nil, errUnsupportedMediaType("requests with a Content-Encoding are not supported")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		return body, nil
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
}

// fromRequest decodes the body of a POST or a PUT.
func (b *bodyReader) fromRequest(w http.ResponseWriter, r *http.Request) (object, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	contentType := cmp.Or(r.Header.Get("Content-Type"), wire.ContentTypeJSON)
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, errUnsupportedMediaType("the Content-Type " + contentType + " is malformed")
	}
	switch {
	case mediaType == wire.ContentTypeJSON:
		return b.fromJSON(body, r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict)
	case mediaType == wire.ContentTypeProtobuf && b.goType != nil:
		return b.fromProtobuf(body)
	}
	return nil, errUnsupportedMediaType("the body of the request was in an unknown format: " + mediaType)
}

func (b *bodyReader) fromProtobuf(body []byte) (object, error) {
	tm, raw, err := wire.CutObject(wire.Protobuf, body)
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	if err := b.checkKind(tm.APIVersion, tm.Kind); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(raw, []byte("{")) { // Decode would parse it as JSON
		return nil, apierrors.NewBadRequest("reading the body: JSON instead of protobuf")
	}
	o, err := b.values.Decode(raw, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	return o.(object), nil
}

// strictJSON returns an error for unknown and duplicate fields; lenientJSON ignores such fields.
var (
	lenientJSON = serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, builtinScheme, builtinScheme, serializer.SerializerOptions{})
	strictJSON  = serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, builtinScheme, builtinScheme,
		serializer.SerializerOptions{Strict: true})
)

// fromJSON decodes an object from JSON.
func (b *bodyReader) fromJSON(text []byte, strict bool) (object, error) {
	o := b.values.New().(object) // a test checks that every kind in builtinKinds is an object
	if u, ok := o.(*unstructured.Unstructured); ok {
		text = bytes.TrimSpace(text)
		if len(text) == 0 || text[0] != '{' {
			return nil, apierrors.NewBadRequest("the body is not a JSON object")
		}
		// UnmarshalJSON needs a kind.
		if err := u.UnmarshalJSON(wire.AppendObject(nil, wire.JSON, b.typeMeta(), text)); err != nil {
			return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
		}
		if err := checkMetadata(u); err != nil {
			return nil, err
		}
		return o, b.checkKind(u.GetAPIVersion(), u.GetKind())
	}
	s := lenientJSON
	if strict {
		s = strictJSON
	}
	decoded, gvk, err := s.Decode(text, &b.gvk, o)
	if err != nil && !(runtime.IsStrictDecodingError(err) && !strict) {
		return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	if decoded != runtime.Object(o) {
		return nil, b.checkKind(gvk.ToAPIVersionAndKind())
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return o, b.checkKind(gvk.ToAPIVersionAndKind())
}

// checkMetadata returns an error if a metadata field of an unstructured object has a wrong type.
// The accessors of unstructured objects, such as GetLabels, would ignore such a field.
func checkMetadata(u *unstructured.Unstructured) error {
	metadata, ok := u.Object["metadata"]
	if !ok || metadata == nil {
		u.Object["metadata"] = map[string]any{}
		return nil
	}
	text, err := json.Marshal(metadata)
	if err == nil {
		err = json.Unmarshal(text, &metav1.ObjectMeta{})
	}
	if err != nil {
		return apierrors.NewBadRequest("metadata: " + err.Error())
	}
	return nil
}

// checkKind returns an error if the body states an apiVersion or a kind that differs from that of
// b.gvk. The body may omit either or both.
func (b *bodyReader) checkKind(apiVersion, kind string) error {
	want := b.typeMeta()
	if apiVersion != "" && apiVersion != want.APIVersion {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			apiVersion, want.APIVersion))
	}
	if kind != "" && kind != want.Kind {
		return apierrors.NewBadRequest(fmt.Sprintf("the kind in the data (%s) does not match the expected kind (%s)", kind, want.Kind))
	}
	return nil
}

func errUnsupportedMediaType(message string) error {
	return watchcache.NewStatusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, message)
}
