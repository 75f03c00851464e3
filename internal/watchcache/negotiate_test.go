package watchcache

import (
	"net/http"
	"testing"

	"github.com/weirproject/weir/internal/wire"
)

func TestNegotiate(t *testing.T) {
	jsonWhole, protoWhole := mediaType{enc: wire.JSON}, mediaType{enc: wire.Protobuf}
	any := func(mediaRange) bool { return true }
	noProtobuf := func(mr mediaRange) bool { return mr.enc == wire.JSON || mr.shape == metadataOnly }
	const partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, tt := range []struct {
		accept string
		can    func(mediaRange) bool
		want   mediaType
		ok     bool
	}{
		{"", any, jsonWhole, true},
		{"*/*", any, jsonWhole, true},
		{"application/*", any, jsonWhole, true},
		{"application/*, application/vnd.kubernetes.protobuf", any, protoWhole, true},
		{"*/*, application/vnd.kubernetes.protobuf", any, protoWhole, true},
		{"*/*, application/vnd.kubernetes.protobuf", noProtobuf, jsonWhole, true},
		{"*/*;q=0.9, application/vnd.kubernetes.protobuf;q=0.9", any, protoWhole, true},
		{"application/json", any, jsonWhole, true},
		{"application/json, */*", any, jsonWhole, true},
		{"application/vnd.kubernetes.protobuf", any, protoWhole, true},
		{"application/vnd.kubernetes.protobuf", noProtobuf, mediaType{}, false},
		{"application/vnd.kubernetes.protobuf,application/json", noProtobuf, jsonWhole, true},
		{"application/vnd.kubernetes.protobuf;stream=watch", any, protoWhole, true},
		{"application/json;stream=other", any, mediaType{}, false},
		{"application/json;q=0.5,application/vnd.kubernetes.protobuf", any, protoWhole, true},
		{"application/json;q=0,application/vnd.kubernetes.protobuf;q=0.1", any, protoWhole, true},
		{"application/cbor,application/json", any, jsonWhole, true},
		{"application/cbor", any, mediaType{}, false},
		{"text/html", any, mediaType{}, false},
		{";;;,application/json", any, jsonWhole, true},
		{"application/json" + partial, any, mediaType{enc: wire.JSON, shape: metadataOnly, version: "v1"}, true},
		{"application/vnd.kubernetes.protobuf" + partial, noProtobuf, mediaType{enc: wire.Protobuf, shape: metadataOnly, version: "v1"}, true},
		{"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", any, mediaType{enc: wire.JSON, shape: metadataOnly, version: "v1", list: true}, true},
		{"application/json;as=Table;g=meta.k8s.io;v=v1beta1", any, mediaType{enc: wire.JSON, shape: table, version: "v1beta1"}, true},
		{"application/json;as=Table;g=meta.k8s.io;v=v2,application/json", any, jsonWhole, true},
		{"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", any, mediaType{}, false},
		{"application/json;as=Other;g=meta.k8s.io;v=v1", any, mediaType{}, false},
		{"application/json;as=Table;g=other;v=v1", any, mediaType{}, false},
		{"application/json;g=other", any, mediaType{}, false},
	} {
		h := http.Header{}
		if tt.accept != "" {
			h.Set("Accept", tt.accept)
		}
		if got, ok := negotiate(h, tt.can); ok != tt.ok || got != tt.want {
			t.Errorf("%q: got %+v %v, want %+v %v", tt.accept, got, ok, tt.want, tt.ok)
		}
	}
}

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

// TestNewChecksPaths is for whoever adds a field: New finds a wrong path, but only for a kind that
// is served.
func TestNewChecksPaths(t *testing.T) {
	r := things
	r.Fields = []Field{{Label: "x", Paths: []string{"a[["}}}
	if _, err := New(Config{Resource: r, Encoding: wire.JSON}); err == nil {
		t.Error("no error for a broken path")
	}
}
