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
// The context given to List or Watch covers the whole stream, not only the request. When it ends,
// the stream ends with the context's cause as its error.
//
// Errors are of three kinds. An answer other than 200 is a *apierrors.StatusError with Retry-After
// filled in (use errors.As, or apierrors.IsGone and its kin). A request without an answer is an
// error that names method and path and wraps the transport's error. An answer that cannot be read
// wraps [ErrMediaType] or a wire.SyntaxError.
type Source interface {
	// List opens a LIST. It blocks until the answer starts.
	List(ctx context.Context, o ListOptions) (List, error)
	// Watch opens a WATCH. It blocks until the answer starts, which may be before the first event.
	Watch(ctx context.Context, o WatchOptions) (Watch, error)
	// NewestVersion returns the server's newest resourceVersion, from a consistent read. It makes a
	// LIST with limit 1 and reads it until the resourceVersion is known. The version holds for all
	// resources in the same etcd.
	//
	// With atLeast the version is not older than that, or the error is a 504 with the cause
	// ResourceVersionTooLarge. Servers that do not know that parameter return the version they
	// have. The result is "" if the server sends no version. NewestVersion may be called while a
	// stream is open.
	NewestVersion(ctx context.Context, atLeast string) (string, error)
	// ServerVersion returns the version of the Kubernetes API server, such as 1, 37. Sources cache
	// it.
	ServerVersion(ctx context.Context) (major, minor int, err error)
}

// List is the answer to a LIST. It must be used by one goroutine at a time, except for Close, which
// any goroutine may call. Every List must be closed.
type List interface {
	// Next returns the next item, then io.EOF. It blocks until there is one. After a
	// *wire.ItemError, which is about one item, the next call returns the item after it.
	Next() (Object, error)
	// ItemTypeMeta returns the type of the items, and Meta the list's metadata, both as read so far;
	// see wire.ListReader.
	ItemTypeMeta() wire.TypeMeta
	Meta() wire.ListMeta
	// Encoding returns the encoding of the items' bytes.
	Encoding() wire.Encoding
	// Offset returns how many bytes of the body were read.
	Offset() int64
	// Close ends the request and frees the connection. It does not wait for the server. A Next that
	// is under way fails. Closing again does nothing.
	Close() error
}

// Watch is the answer to a WATCH. The rules for use and Close are those of List.
type Watch interface {
	// Next returns the next event, then io.EOF when the server ends the watch. It blocks until there
	// is one. After a *wire.ItemError, which is about one event, the next call returns the event
	// after it.
	Next() (Event, error)
	// Buffered returns how many bytes of the next event have been read; see wire.WatchReader.
	Buffered() int
	// BeforeRead sets a function that Next calls each time before it waits for more. A reader that
	// applies events in batches can apply a batch there, even when a part of the next event has
	// arrived. BeforeRead must not be called while Next runs, and f must not call Next.
	BeforeRead(f func())
	Encoding() wire.Encoding
	Offset() int64
	Close() error
}

// Object is one object of an answer: its bytes, or a Go value where the answer is one of those.
type Object struct {
	Raw   []byte // valid until the next Next
	Value any    // has metadata; nil where there are bytes
}

// Event is one event of a WATCH. The object of an Error event is always bytes; a Watch of values
// returns it as Next's error instead.
type Event struct {
	Type     wire.EventType
	TypeMeta wire.TypeMeta // of the object; empty if the answer does not state it
	Object
}

// ListOptions are the parameters of one LIST, with the meaning that kube-apiserver gives them.
type ListOptions struct {
	// ResourceVersion is "" for a consistent read, "0" for any version that the server has, or a
	// version.
	ResourceVersion string
	// Match sets the meaning of ResourceVersion. "" leaves it to the server.
	Match metav1.ResourceVersionMatch
	// Limit is the greatest number of items in the answer; 0 is no limit.
	Limit int64
	// Continue is the token of the page before. With it, ResourceVersion and Match must be empty.
	Continue string
}

// WatchOptions are the parameters of one WATCH.
type WatchOptions struct {
	// ResourceVersion is where to start: the watch sends the changes after it.
	ResourceVersion string
	// Match must be NotOlderThan with SendInitialEvents, else empty.
	Match metav1.ResourceVersionMatch
	// SendInitialEvents asks for the current objects as ADDED events, followed by an annotated
	// bookmark (KEP-3157).
	SendInitialEvents bool
	// AllowBookmarks asks for BOOKMARK events.
	AllowBookmarks bool
	// Timeout asks the server to end the watch after this time, rounded up to whole seconds. 0
	// leaves it to the server; then only the transport's keep-alive ends a dead connection.
	Timeout time.Duration
}

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
// so it does not find out whether the server has the resource.
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
