package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
)

// Source opens streams of one resource. Implementations are safe for concurrent use.
//
// The context given to List or Watch also limits the returned stream: when the context ends, the
// stream fails with the context's cause.
//
// There are three kinds of errors. If the response's code is not 200, the error is an
// *apierrors.StatusError that includes the delay of the Retry-After header (use errors.As, or
// functions such as apierrors.IsGone). If a request gets no response, the error names its method
// and path and wraps the transport's error. If a response cannot be decoded, the error wraps
// [ErrMediaType] or a wire.SyntaxError.
type Source interface {
	// List opens a LIST with the parameters o. It blocks until the response starts.
	List(ctx context.Context, o metav1.ListOptions) (List, error)
	// Watch sets o.Watch and opens a WATCH with the parameters o. It blocks until the response starts,
	// which may be before the first event. If o has no timeout, only the transport's keep-alive ends a
	// dead connection.
	Watch(ctx context.Context, o metav1.ListOptions) (Watch, error)
	// NewestVersion sends a LIST with the parameters o and limit 1, and returns the resourceVersion of
	// the response. If much of the response follows the resourceVersion, NewestVersion reads only a
	// part of it. If o has no ResourceVersion, the read is consistent: the result is the server's
	// newest version. The version counts the changes of all resources in the same etcd.
	//
	// If o requires a state that is not older than o.ResourceVersion, and the server has not reached
	// that version, the error is a 504 with the cause ResourceVersionTooLarge. Servers that ignore
	// resourceVersion on LISTs return their current version, which may be older. The result is "" if
	// the response has no resourceVersion. NewestVersion may be called while a stream is open.
	NewestVersion(ctx context.Context, o metav1.ListOptions) (string, error)
	// ServerVersion returns the version of the Kubernetes API server, such as 1 and 37.
	// Implementations cache the version.
	ServerVersion(ctx context.Context) (major, minor int, err error)
}

// List is the response to a LIST. Only one goroutine at a time may use it, except that any
// goroutine may call Close at any time. Every List must be closed.
type List interface {
	// Next returns the next item, or io.EOF after the last item. It blocks until the item has
	// arrived. A *wire.ItemError concerns one item only, and the next call returns the item after
	// it.
	Next() (Object, error)
	// ItemTypeMeta returns the type of the items, and Meta the list's metadata. Both may be incomplete
	// until Next returns io.EOF; see wire.ListReader.
	ItemTypeMeta() wire.TypeMeta
	Meta() wire.ListMeta
	// Encoding returns the encoding of the items' bytes.
	Encoding() wire.Encoding
	// Offset returns the number of bytes of the decompressed body up to the end of the item that Next
	// returned last.
	Offset() int64
	// Close ends the request and frees the connection. It does not wait for the server. A concurrent
	// Next returns an error. Only the first call has an effect.
	Close() error
}

// Watch is the response to a WATCH. Only one goroutine at a time may use it, except that any
// goroutine may call Close at any time. Every Watch must be closed.
type Watch interface {
	// Next returns the next event, or io.EOF after the server ended the watch. It blocks until the
	// event has arrived. A *wire.ItemError concerns one event only, and the next call returns the
	// event after it.
	Next() (Event, error)
	// Buffered returns the number of bytes after the last event that have already been read; see
	// wire.WatchReader.
	Buffered() int
	// BeforeRead sets a function f that Next calls each time before it waits for more bytes. A caller
	// that applies events in batches can apply the current batch in f, even if a part of the next
	// event has arrived. BeforeRead must not be called while Next runs, and f must not call Next.
	BeforeRead(f func())
	Encoding() wire.Encoding
	Offset() int64
	Close() error
}

// Object is one object of a response: its bytes, or a Go value if the Source returns Go values.
type Object struct {
	Raw   []byte // valid until the next call of Next
	Value any    // an API object; nil if Raw is set
}

// Event is one event of a WATCH. If Type is wire.Error, the object consists of bytes: a Watch that
// returns Go values reports an ERROR event only as Next's error.
type Event struct {
	Type     wire.EventType
	TypeMeta wire.TypeMeta // of the object; empty if the response does not contain it
	Object
}

// TimeoutOf returns the time after which a server ends a WATCH with the parameters o. It returns 0
// if o has no timeout.
func TimeoutOf(o metav1.ListOptions) time.Duration {
	if o.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*o.TimeoutSeconds) * time.Second
}

// PartialObjectMetadata is the kind of an object in a response that contains only the metadata of
// objects.
const PartialObjectMetadata = "PartialObjectMetadata"

// Resource says which resource is listed and watched, and in which form. Which of its objects a
// request selects depends on the parameters of the request.
type Resource struct {
	GVR       schema.GroupVersionResource
	Namespace string // "": all namespaces, or a cluster-scoped resource
	// MetadataOnly requests the objects as PartialObjectMetadata.
	MetadataOnly bool
	// Encoding is the requested encoding. 0 means Protobuf. A request for Protobuf also accepts JSON,
	// because servers cannot encode custom resources in protobuf. A request for JSON accepts only
	// JSON. List.Encoding and Watch.Encoding return the encoding of the response.
	Encoding wire.Encoding
}

// Validate returns an error that wraps ErrResource if r is malformed. It sends no request, so it
// does not check whether the server has the resource.
func (r Resource) Validate() error {
	if r.GVR.Resource == "" || r.GVR.Version == "" {
		return fmt.Errorf("%w: %q has no name or no version", ErrResource, r.GVR)
	}
	for _, segment := range []string{r.GVR.Group, r.GVR.Version, r.GVR.Resource, r.Namespace} {
		if bad := request.IsPathSegmentName(segment); len(bad) > 0 {
			return fmt.Errorf("%w: %q %s", ErrResource, segment, bad[0])
		}
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
	root, namespace := "/api/", ""
	if r.GVR.Group != "" {
		root = "/apis/" + r.GVR.Group + "/"
	}
	if r.Namespace != "" {
		namespace = "/namespaces/" + r.Namespace
	}
	return root + r.GVR.Version + namespace + "/" + r.GVR.Resource
}

// Accept returns the Accept header of a LIST, or of a WATCH if watch is true.
//
// The last choice is always plain JSON, so that an aggregated API server without protobuf or
// without PartialObjectMetadata still sends a response that Weir can decode. The choices are in
// order of preference, without q values, as client-go writes them. A caching proxy may forward a
// request with q values to the server instead of serving it from its cache.
func (r Resource) Accept(watch bool) string {
	partial := ""
	if r.MetadataOnly {
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
