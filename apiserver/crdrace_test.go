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
)

// TestDefinedAndUndefinedAtOnce: a definition that is deleted while it is being created leaves no
// resource that is served without it.
func TestDefinedAndUndefinedAtOnce(t *testing.T) {
	const rounds, versions = 200, 40
	s, err := apiserver.New(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := unstructured.SetNestedSlice(crd.Object, all, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	definition, err := json.Marshal(crd.Object)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for round := range rounds {
		var both sync.WaitGroup
		both.Go(func() {
			if code := do(http.MethodPost, path, definition); code != http.StatusCreated {
				t.Errorf("POST: %d", code)
			}
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
