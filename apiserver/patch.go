package apiserver

import (
	"encoding/json"
	"mime"
	"net/http"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// patcher applies a patch to the JSON of an object.
type patcher func(text []byte) ([]byte, error)

func (s *Server) patch(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	apply, err := res.patcher(w, r)
	if err != nil {
		return err
	}
	strict := r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict
	raw, err := s.update(res, q, dryRun(r), func(o object) (object, error) { return res.patched(o, apply, strict) })
	if err != nil {
		return err
	}
	return res.cache.WriteObject(w, r, http.StatusOK, raw)
}

func (b *bodyReader) patched(o object, apply patcher, strict bool) (object, error) {
	text, err := b.toJSON(o)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if text, err = apply(text); err != nil {
		return nil, err
	}
	return b.fromJSON(text, strict)
}

// patcher parses the patch of a request.
func (b *bodyReader) patcher(w http.ResponseWriter, r *http.Request) (patcher, error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return nil, errUnsupportedMediaType("a PATCH needs a Content-Type")
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	switch types.PatchType(mediaType) {
	case types.JSONPatchType:
		return jsonPatcher(body)
	case types.MergePatchType:
		return mergePatcher(body)
	case types.StrategicMergePatchType:
		if b.goType != nil {
			return b.strategicPatcher(body), nil
		}
		return nil, errUnsupportedMediaType("strategic merge patches apply only to built-in kinds: use " + string(types.MergePatchType))
	case types.ApplyPatchType, "application/apply-patch+cbor":
		return nil, errUnsupportedMediaType("this server does not support server-side apply: use client-side apply, or " +
			string(types.MergePatchType))
	}
	return nil, errUnsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
		string(types.JSONPatchType) + ", " + string(types.MergePatchType) + ", " + string(types.StrategicMergePatchType))
}

// maxPatchOperations bounds the number of operations in a JSON patch, as in kube-apiserver.
const maxPatchOperations = 10_000

// init limits the bytes that the copy operations of a JSON patch may add. Otherwise a short patch
// could grow a document without limit: each operation that copies a document into itself doubles
// it. The limit is a variable of the library, so it applies to the whole process. If the program
// has already set it, init does not change it.
func init() {
	if jsonpatch.AccumulatedCopySizeLimit == 0 {
		jsonpatch.AccumulatedCopySizeLimit = maxBody
	}
}

func jsonPatcher(body []byte) (patcher, error) {
	p, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the patch: " + err.Error())
	}
	if len(p) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError("the JSON patch has too many operations")
	}
	return func(text []byte) ([]byte, error) {
		out, err := p.Apply(text)
		if err != nil {
			return nil, errUnprocessable(err)
		}
		return out, nil
	}, nil
}

func mergePatcher(body []byte) (patcher, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, apierrors.NewBadRequest("reading the patch: " + err.Error())
	}
	if members == nil {
		return nil, apierrors.NewBadRequest("reading the patch: it is not a JSON object")
	}
	return func(text []byte) ([]byte, error) {
		out, err := jsonpatch.MergePatch(text, body)
		if err != nil {
			return nil, errUnprocessable(err)
		}
		return out, nil
	}, nil
}

func (b *bodyReader) strategicPatcher(body []byte) patcher {
	return func(text []byte) ([]byte, error) {
		out, err := strategicpatch.StrategicMergePatch(text, body, reflect.New(b.goType).Interface())
		if err != nil {
			return nil, apierrors.NewBadRequest("applying the patch: " + err.Error())
		}
		return out, nil
	}
}

func errUnprocessable(err error) error {
	return watchcache.NewStatusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		"the server rejected our request due to an error in our request: "+err.Error())
}
