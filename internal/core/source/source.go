package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/core/wire"
)

// Source opens streams of one resource. Implementations are safe for concurrent use.
//
// The context given to List or Watch also covers the stream after the request. When the context
// ends, the stream fails with the context's cause.
//
// There are three kinds of errors. An answer other than 200 is an *apierrors.StatusError with
// Retry-After filled in (use errors.As, or functions such as apierrors.IsGone). If a request gets
// no answer, the error names its method and path and wraps the transport's error. If an answer
// cannot be read, the error wraps [ErrMediaType] or a wire.SyntaxError.
type Source interface {
	// List opens a LIST. It blocks until the answer starts.
	List(ctx context.Context, o ListOptions) (List, error)
	// Watch opens a WATCH. It blocks until the answer starts, which may be before the first event.
	Watch(ctx context.Context, o WatchOptions) (Watch, error)
	// NewestVersion returns the server's newest resourceVersion, from a consistent read. It sends a
	// LIST with limit 1 and reads the answer up to the resourceVersion. The result applies to all
	// resources in the same etcd.
	//
	// If atLeast is not empty, the result is not older than atLeast, or the error is a 504 with the
	// cause ResourceVersionTooLarge. Servers that ignore that parameter return their current
	// version. The result is "" if the server sends no version. NewestVersion may be called while a
	// stream is open.
	NewestVersion(ctx context.Context, atLeast string) (string, error)
	// ServerVersion returns the version of the Kubernetes API server, such as 1, 37. Sources cache
	// it.
	ServerVersion(ctx context.Context) (major, minor int, err error)
}

// List is the answer to a LIST. Only one goroutine at a time may use it, but any goroutine may call
// Close at any time. Every List must be closed.
type List interface {
	// Next returns the next item, or io.EOF after the last item. It blocks until the item has
	// arrived. A *wire.ItemError concerns one item only, and the next call returns the item after
	// it.
	Next() (Object, error)
	// ItemTypeMeta returns the type of the items, and Meta the list's metadata. Both may change
	// until Next returns io.EOF; see wire.ListReader.
	ItemTypeMeta() wire.TypeMeta
	Meta() wire.ListMeta
	// Encoding returns the encoding of the items' bytes.
	Encoding() wire.Encoding
	// Offset returns the number of bytes of the body that were read.
	Offset() int64
	// Close ends the request and frees the connection. It does not wait for the server. A
	// concurrent Next fails. Further calls do nothing.
	Close() error
}

// Watch is the answer to a WATCH. As with a List, only one goroutine at a time may use it, any
// goroutine may call Close, and every Watch must be closed.
type Watch interface {
	// Next returns the next event, or io.EOF after the server ended the watch. It blocks until the
	// event has arrived. A *wire.ItemError concerns one event only, and the next call returns the
	// event after it.
	Next() (Event, error)
	// Buffered returns the number of bytes of the next event that have been read; see
	// wire.WatchReader.
	Buffered() int
	// BeforeRead sets a function that Next calls each time before it waits for more bytes. A caller
	// that applies events in batches can apply a batch in f, even if a part of the next event has
	// arrived. BeforeRead must not be called while Next runs, and f must not call Next.
	BeforeRead(f func())
	Encoding() wire.Encoding
	Offset() int64
	Close() error
}

// Object is one object of an answer: its bytes, or a Go value if the Source returns Go values.
type Object struct {
	Raw   []byte // valid until the next call of Next
	Value any    // has metadata; nil if Raw is set
}

// Event is one event of a WATCH. The object of an Error event always has bytes. A Watch of Go
// values returns such an event as Next's error instead.
type Event struct {
	Type     wire.EventType
	TypeMeta wire.TypeMeta // of the object; empty if the answer does not contain it
	Object
}

// ListOptions are the parameters of one LIST. They mean what they mean in the Kubernetes API.
type ListOptions struct {
	// ResourceVersion is "" for a consistent read, "0" for any version that the server has cached,
	// or a version.
	ResourceVersion string
	// Match says how the server uses ResourceVersion. "" means the server's default.
	Match metav1.ResourceVersionMatch
	// Limit is the maximum number of items in the answer; 0 means no limit.
	Limit int64
	// Continue is the token that the previous page returned. With a token, ResourceVersion and
	// Match must be empty.
	Continue string
}

// WatchOptions are the parameters of one WATCH.
type WatchOptions struct {
	// ResourceVersion is the version at which the watch starts: the server sends the later changes.
	ResourceVersion string
	// Match must be NotOlderThan if SendInitialEvents is set, and otherwise empty.
	Match metav1.ResourceVersionMatch
	// SendInitialEvents requests the current objects as ADDED events, followed by an annotated
	// bookmark (KEP-3157).
	SendInitialEvents bool
	// AllowBookmarks requests BOOKMARK events.
	AllowBookmarks bool
	// Timeout asks the server to end the watch after this time, rounded up to whole seconds. 0
	// means the server's default; then only the transport's keep-alive ends a dead connection.
	Timeout time.Duration
}

// PartialObjectMetadata is the value of Resource.As that requests only metadata.
const PartialObjectMetadata = "PartialObjectMetadata"

// Resource says which objects are listed and watched, and in which form.
type Resource struct {
	GVR           schema.GroupVersionResource
	Namespace     string // "": all namespaces, or a cluster-scoped resource
	LabelSelector string // "": all objects
	FieldSelector string // "": all objects
	// ShardSelector selects a part of the objects (KEP-5866), as in
	// "shardRange(object.metadata.uid, '0x…', '0x…')". "" selects all objects. Most servers ignore
	// it. If a List's Meta has a ShardSelector, the List contains only that part. Otherwise it may
	// contain all objects.
	ShardSelector string
	// As is "" for whole objects, or PartialObjectMetadata.
	As string
	// Encoding is the requested encoding. Protobuf, also the zero value, falls back to JSON if the
	// server has no protobuf, as for custom resources. JSON requests only JSON. List.Encoding and
	// Watch.Encoding return the encoding of the answer.
	Encoding wire.Encoding
}

// Validate returns an error that wraps ErrResource if no server could serve r. It sends no request,
// so it does not check that a particular server has the resource.
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

// Accept returns the Accept header of a LIST, or of a WATCH if watch is true.
//
// The last choice is always plain JSON, so that an aggregated API server without protobuf or
// without PartialObjectMetadata still sends a readable answer. The choices are in order of
// preference, without q values, as client-go writes them. A caching proxy may forward a request
// with q values to the server instead of answering it.
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
