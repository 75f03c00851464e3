package source

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/shard"
	"github.com/weirproject/weir/internal/wire"
)

// PartialObjectMetadata is the value of Resource.As that asks for metadata only.
const PartialObjectMetadata = "PartialObjectMetadata"

// Resource names what is listed and watched, and in which form.
type Resource struct {
	GVR           schema.GroupVersionResource
	Namespace     string // "" is all namespaces, or a cluster-scoped resource
	LabelSelector string // "" is everything
	FieldSelector string // "" is everything
	// ShardSelector selects a part of the objects (KEP-5866), as in
	// "shardRange(object.metadata.uid, '0x…', '0x…')". "" selects everything. Most servers ignore
	// it. A List whose Meta has a ShardSelector holds only that part. A List without one may hold
	// all objects.
	ShardSelector string
	// As is "" for whole objects, or PartialObjectMetadata.
	As string
	// Encoding is the encoding to ask for. Protobuf, also the zero value, falls back to JSON where
	// the server has no protobuf (custom resources). JSON asks for JSON alone. The Encoding of the
	// List or Watch is that of the answer.
	Encoding wire.Encoding
}

// Validate returns an error that wraps ErrResource if no server could serve r. It makes no request,
// so it does not tell whether the server has the resource.
func (r Resource) Validate() error {
	if r.GVR.Resource == "" || r.GVR.Version == "" {
		return fmt.Errorf("%w: %q has no name or no version", ErrResource, r.GVR)
	}
	for _, segment := range []string{r.GVR.Group, r.GVR.Version, r.GVR.Resource, r.Namespace} {
		if bad := content.IsPathSegmentName(segment); len(bad) > 0 {
			return fmt.Errorf("%w: %q %s", ErrResource, segment, bad[0])
		}
	}
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		return fmt.Errorf("%w: label selector: %w", ErrResource, err)
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		return fmt.Errorf("%w: field selector: %w", ErrResource, err)
	}
	if r.ShardSelector != "" {
		if _, err := shard.Parse(r.ShardSelector); err != nil {
			return fmt.Errorf("%w: %w", ErrResource, err)
		}
	}
	if r.As != "" && r.As != PartialObjectMetadata {
		return fmt.Errorf("%w: as %q is not known", ErrResource, r.As)
	}
	switch r.Encoding {
	case 0, wire.Protobuf, wire.JSON:
		return nil
	}
	return fmt.Errorf("%w: encoding %d is not known", ErrResource, r.Encoding)
}

// Path returns the URL path below the server's root, such as
// /apis/apps/v1/namespaces/default/deployments.
func (r Resource) Path() string {
	var b strings.Builder
	if r.GVR.Group == "" {
		b.WriteString("/api")
	} else {
		b.WriteString("/apis/")
		b.WriteString(r.GVR.Group)
	}
	b.WriteString("/")
	b.WriteString(r.GVR.Version)
	if r.Namespace != "" {
		b.WriteString("/namespaces/")
		b.WriteString(r.Namespace)
	}
	b.WriteString("/")
	b.WriteString(r.GVR.Resource)
	return b.String()
}

// Accept returns the Accept header of a LIST, or with watch of a WATCH.
//
// The last choice is always plain JSON, so that an aggregated API server without protobuf or
// without PartialObjectMetadata still gives a readable answer. The choices stand in order of
// preference, without q values, as client-go writes them. A caching proxy may pass a request with q
// values on to the server.
func (r Resource) Accept(watch bool) string {
	partial := ""
	if r.As == PartialObjectMetadata {
		kind := PartialObjectMetadata
		if !watch {
			kind += "List"
		}
		partial = ";as=" + kind + ";g=meta.k8s.io;v=v1"
	}
	var accept []string
	if r.Encoding != wire.JSON {
		stream := ""
		if watch {
			stream = ";stream=watch"
		}
		accept = append(accept, wire.ContentTypeProtobuf+partial+stream)
	}
	if partial != "" {
		accept = append(accept, wire.ContentTypeJSON+partial)
	}
	accept = append(accept, wire.ContentTypeJSON)
	return strings.Join(accept, ", ")
}
