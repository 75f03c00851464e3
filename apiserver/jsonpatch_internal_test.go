package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestJSONPatchBomb checks that the size of a patched document is limited. Each pair of operations
// of the patch copies the document into itself, and so doubles it.
func TestJSONPatchBomb(t *testing.T) {
	patch := "[" + strings.Repeat(`{"op":"copy","from":"","path":"/a"},{"op":"copy","from":"/a","path":"/b"},`, 100) + `{"op":"remove","path":"/a"}]`
	apply, err := jsonPatcher([]byte(patch))
	check.NoError(t, err)
	if _, err := apply([]byte(`{}`)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("got %v", err)
	}
}

func FuzzJSONPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`[{"op":"move","from":"/a/1","path":"/a/0"},{"op":"copy","from":"/a","path":"/b"}]`))
	f.Add([]byte(`[]`), []byte(`[{"op":"add","path":"/-","value":{}},{"op":"remove","path":"/0"}]`))
	f.Fuzz(func(t *testing.T, text, patch []byte) {
		apply, err := jsonPatcher(patch)
		if err != nil || !json.Valid(text) || text[0] != '{' {
			return // the server patches only JSON objects
		}
		if out, err := apply(text); err == nil && !json.Valid(out) {
			t.Errorf("the result is no JSON: %s", out)
		}
	})
}

func FuzzPath(f *testing.F) {
	f.Add("/api/v1/namespaces/a/pods/b/status")
	f.Add("/apis/apps/v1/watch/namespaces/a/deployments")
	f.Fuzz(func(t *testing.T, path string) {
		if q, ok := parsePath(path); ok && (q.Version == "" || q.Resource == "" || q.Subresource != "" && q.Name == "") {
			t.Errorf("%q: %+v", path, q)
		}
	})
}
