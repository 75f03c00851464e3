package watchcache

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/wire"
)

// TestNewChecksPaths checks that New rejects an invalid path. New compiles only the paths of the
// resource that it serves, so a developer who adds a field must also serve its kind in a test.
func TestNewChecksPaths(t *testing.T) {
	r := things
	r.Fields = []Field{{Label: "x", Paths: []string{"a[["}}}
	if _, err := New(Config{Resource: r, Encoding: wire.JSON}); err == nil {
		t.Error("no error for a broken path")
	}
}

// TestForms checks the responses to a LIST, a GET and a WATCH for each Accept header.
func TestForms(t *testing.T) { synctest.Test(t, testForms) }

func testForms(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	tc.put("ns", "a", "red")
	const meta = ";g=meta.k8s.io;v=v1"
	for _, tt := range []struct {
		accept           string
		list, get, watch string // what the response contains
	}{
		{"application/json", `"kind":"ThingList"`, `"kind":"Thing"`, `"kind":"Thing"`},
		{"application/json;as=Table" + meta, `"kind":"Table"`, `"kind":"Table"`, `"kind":"Table"`},
		{"application/json;as=PartialObjectMetadata" + meta, `"code":406`, `"kind":"PartialObjectMetadata"`, `"kind":"PartialObjectMetadata"`},
		{"application/json;as=PartialObjectMetadataList" + meta, `"kind":"PartialObjectMetadataList"`, `"code":406`, `"kind":"PartialObjectMetadata"`},
		{"text/html", `"code":406`, `"code":406`, `"code":406`},
		{"application/*", `"code":406`, `"code":406`, `"code":406`},
	} {
		for _, include := range []string{"", "&includeObject=None", "&includeObject=Object", "&includeObject=All"} {
			query := "timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&watch=1"
			for i, want := range []string{tt.list, tt.get, tt.watch} {
				if strings.Contains(tt.accept, "Table") && strings.HasSuffix(include, "All") {
					want = `"code":400`
				}
				q := []string{"", "", query}[i] + include
				w, r := httptest.NewRecorder(), newRequest(q)
				r.Header.Set("Accept", tt.accept)
				if i == 1 {
					serveGet(tc.cache, w, r, "ns", "a")
				} else {
					serveList(tc.cache, w, r, "", "")
				}
				if body := strings.ReplaceAll(w.Body.String(), " ", ""); !strings.Contains(body, want) {
					t.Errorf("%s of %s%s: %s", []string{"LIST", "GET", "WATCH"}[i], tt.accept, include, body)
				}
			}
		}
	}
}
