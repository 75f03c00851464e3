package request

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
)

func TestNegotiate(t *testing.T) {
	jsonWhole, protoWhole := MediaType{Encoding: wire.JSON}, MediaType{Encoding: wire.Protobuf}
	any := func(MediaRange) bool { return true }
	noProtobuf := func(mr MediaRange) bool { return mr.Encoding == wire.JSON || mr.Shape == MetadataOnly }
	const partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, tt := range []struct {
		accept string
		can    func(MediaRange) bool
		want   MediaType
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
		{"application/vnd.kubernetes.protobuf", noProtobuf, MediaType{}, false},
		{"application/vnd.kubernetes.protobuf,application/json", noProtobuf, jsonWhole, true},
		{"application/vnd.kubernetes.protobuf;stream=watch", any, protoWhole, true},
		{"application/json;stream=other", any, MediaType{}, false},
		{"application/json;q=0.5,application/vnd.kubernetes.protobuf", any, protoWhole, true},
		{"application/json;q=0,application/vnd.kubernetes.protobuf;q=0.1", any, protoWhole, true},
		{"application/cbor,application/json", any, jsonWhole, true},
		{"application/cbor", any, MediaType{}, false},
		{"text/html", any, MediaType{}, false},
		{";;;,application/json", any, jsonWhole, true},
		{"application/json" + partial, any, MediaType{Encoding: wire.JSON, Shape: MetadataOnly, Version: "v1"}, true},
		{"application/vnd.kubernetes.protobuf" + partial, noProtobuf, MediaType{Encoding: wire.Protobuf, Shape: MetadataOnly, Version: "v1"}, true},
		{"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", any, MediaType{Encoding: wire.JSON, Shape: MetadataOnly, Version: "v1", List: true}, true},
		{"application/json;as=Table;g=meta.k8s.io;v=v1beta1", any, MediaType{Encoding: wire.JSON, Shape: Table, Version: "v1beta1"}, true},
		{"application/json;as=Table;g=meta.k8s.io;v=v2,application/json", any, jsonWhole, true},
		{"application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", any, MediaType{}, false},
		{"application/json;as=Other;g=meta.k8s.io;v=v1", any, MediaType{}, false},
		{"application/json;as=Table;g=other;v=v1", any, MediaType{}, false},
		{"application/json;g=other", any, MediaType{}, false},
	} {
		h := http.Header{}
		if tt.accept != "" {
			h.Set("Accept", tt.accept)
		}
		a := ParseAccept(h)
		if got, ok := a.Negotiate(tt.can); ok != tt.ok || got != tt.want {
			t.Errorf("%q: got %+v %v, want %+v %v", tt.accept, got, ok, tt.want, tt.ok)
		}
	}
}

// TestDropManagedFields checks that a request to omit managed fields (KEP-5958) is not strict, so
// the proxy forwards it, and that negotiation ignores its parameter, as kube-apiserver's does while
// the feature gate is disabled.
func TestDropManagedFields(t *testing.T) {
	a := ParseAccept(http.Header{"Accept": {"application/vnd.kubernetes.protobuf;drop=metadata.managedFields"}})
	mt, ok := a.Negotiate(func(MediaRange) bool { return true })
	if want := (MediaType{Encoding: wire.Protobuf}); a.IsStrict("") || !ok || mt != want {
		t.Errorf("strict %v, %+v %v", a.IsStrict(""), mt, ok)
	}
}

// TestAlikeRanges checks that a parsed header that repeats its ranges is small. A client can make
// the server cache thousands of different headers.
func TestAlikeRanges(t *testing.T) {
	header := strings.Repeat("*/*,application/json;q=0.1,", MaxCachedBytes/30) + "application/json"
	a := ParseAccept(http.Header{"Accept": {header}})
	if len(a.ranges) != 2 || cap(a.ranges) > 4 {
		t.Errorf("%d ranges in %d places", len(a.ranges), cap(a.ranges))
	}
	if mt, ok := a.Negotiate(func(mr MediaRange) bool { return mr.quality == 1 && mr.Wildcards == 0 }); !ok || mt.Encoding != wire.JSON {
		t.Errorf("not the best of the ranges: %+v", a.ranges)
	}
}
