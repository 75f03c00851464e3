package watchcache

import (
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
)

func TestAppendAPIVersion(t *testing.T) {
	for _, tt := range []struct{ object, want string }{
		{`{"apiVersion":"a/v1","kind":"K"}`, `{"apiVersion":"b/v2","kind":"K"}`},
		{` { "kind" : {"apiVersion":"inner"}, "apiVersion" : "a\u002fv1" , "x":1}`, ` { "kind" : {"apiVersion":"inner"}, "apiVersion" : "b/v2" , "x":1}`},
		{`{}`, `{}`},
		{`{"kind":"K"}`, `{"kind":"K"}`},
	} {
		got, err := appendAPIVersion([]byte("-"), []byte(tt.object), "b/v2")
		if err != nil || string(got) != "-"+tt.want {
			t.Errorf("%s: got %s, %v", tt.object, got, err)
		}
	}
	for _, bad := range []string{``, `[]`, `5`, `{"apiVersion"`, `{"a":`, `{"a":1`} {
		if got, err := appendAPIVersion(nil, []byte(bad), "b/v2"); err == nil {
			t.Errorf("%s became %s", bad, got)
		}
	}
}

// TestNewChecksPaths is for developers who add a field: New finds a wrong path, but only for a kind
// that is served.
func TestNewChecksPaths(t *testing.T) {
	r := things
	r.Fields = []Field{{Label: "x", Paths: []string{"a[["}}}
	if _, err := New(Config{Resource: r, Encoding: wire.JSON}); err == nil {
		t.Error("no error for a broken path")
	}
}
