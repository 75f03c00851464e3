package source_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

var pods = source.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

func TestAccept(t *testing.T) {
	for _, c := range []struct {
		name        string
		metadata    bool
		enc         wire.Encoding
		list, watch string
	}{
		{"default", false, 0,
			"application/vnd.kubernetes.protobuf, application/json",
			"application/vnd.kubernetes.protobuf;stream=watch, application/json"},
		{"json", false, wire.JSON, "application/json", "application/json"},
		{"metadata", true, wire.Protobuf,
			"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, " +
				"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
			"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;stream=watch, " +
				"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"},
		{"metadata as json", true, wire.JSON,
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json",
			"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"},
	} {
		r := pods
		r.MetadataOnly, r.Encoding = c.metadata, c.enc
		check.Equal(t, r.Accept(false), c.list, "%s, LIST", c.name)
		check.Equal(t, r.Accept(true), c.watch, "%s, WATCH", c.name)
	}
}

func TestResource(t *testing.T) {
	with := func(change func(*source.Resource)) source.Resource {
		r := pods
		change(&r)
		return r
	}
	for _, c := range []struct {
		resource source.Resource
		path     string // "" means that the resource is invalid
	}{
		{pods, "/api/v1/pods"},
		{with(func(r *source.Resource) { r.Namespace = "a" }), "/api/v1/namespaces/a/pods"},
		{with(func(r *source.Resource) {
			r.GVR = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		}),
			"/apis/apps/v1/deployments"},
		{with(func(r *source.Resource) { r.Namespace = "../../../secrets" }), ""},
		{with(func(r *source.Resource) { r.Namespace = ".." }), ""},
		{with(func(r *source.Resource) { r.GVR.Resource = "" }), ""},
		{with(func(r *source.Resource) { r.GVR.Version = "" }), ""},
		{with(func(r *source.Resource) { r.GVR.Group = "a/b" }), ""},
		{with(func(r *source.Resource) { r.Encoding = 9 }), ""},
	} {
		err := c.resource.Validate()
		if c.path == "" {
			check.ErrorIs(t, err, source.ErrResource, "%+v", c.resource)
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.resource, err)
		}
		check.Equal(t, c.resource.Path(), c.path, "%+v", c.resource)
	}
}
