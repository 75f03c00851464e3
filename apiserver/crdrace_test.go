package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestDefinedAndUndefinedAtOnce: a definition that is deleted while it is being created leaves no
// resource that is served without it.
func TestDefinedAndUndefinedAtOnce(t *testing.T) {
	const rounds, versions = 200, 40
	s, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	defer s.Close()
	do := func(method, path string, body []byte) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
		return w.Code
	}
	crd := widgetDefinition()
	var all []any // enough to take a while
	for i := range versions {
		all = append(all, map[string]any{"name": fmt.Sprintf("v%d", i+1), "served": true, "storage": i == 0})
	}
	check.NoError(t, unstructured.SetNestedSlice(crd.Object, all, "spec", "versions"))
	definition, err := json.Marshal(crd.Object)
	check.NoError(t, err)
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for round := range rounds {
		var both sync.WaitGroup
		both.Go(func() {
			check.Equal(t, do(http.MethodPost, path, definition), http.StatusCreated, "POST")
		})
		both.Go(func() {
			for do(http.MethodDelete, path+"/widgets.example.com", nil) == http.StatusNotFound {
			}
		})
		both.Wait()
		if code := do(http.MethodGet, "/apis/example.com", nil); code != http.StatusNotFound {
			t.Fatalf("round %d: discovery without a definition: %d", round, code)
		}
	}
}
