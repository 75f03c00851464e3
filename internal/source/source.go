package source

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/wire"
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
	// List opens a LIST. It blocks until the answer begins.
	List(ctx context.Context, o ListOptions) (List, error)
	// Watch opens a WATCH. It blocks until the answer begins, which may be before the first event.
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
	// *wire.ItemError, which is about one item, the next call returns the item behind it.
	Next() (Object, error)
	// ItemTypeMeta returns what the items are, and Meta what the list says of itself, as far as it
	// has been read; see wire.ListReader.
	ItemTypeMeta() wire.TypeMeta
	Meta() wire.ListMeta
	// Encoding returns the encoding of the items' bytes.
	Encoding() wire.Encoding
	// Offset returns how far the body has been read, in bytes.
	Offset() int64
	// Close ends the request and frees the connection. It does not wait for the server. A Next that
	// is under way fails. Closing again does nothing.
	Close() error
}

// Watch is the answer to a WATCH. The rules for use and Close are those of List.
type Watch interface {
	// Next returns the next event, then io.EOF when the server ends the watch. It blocks until there
	// is one. After a *wire.ItemError, which is about one event, the next call returns the event
	// behind it.
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
	TypeMeta wire.TypeMeta // of the object; empty where nothing says it
	Object
}

// ListOptions are the parameters of one LIST, with the meaning that kube-apiserver gives them.
type ListOptions struct {
	// ResourceVersion is "" for a consistent read, "0" for whatever the server has, or a version.
	ResourceVersion string
	// Match says how ResourceVersion is meant. "" leaves it to the server.
	Match metav1.ResourceVersionMatch
	// Limit is the greatest number of items in the answer; 0 is no limit.
	Limit int64
	// Continue is the token of the page before. With it, ResourceVersion and Match must be empty.
	Continue string
}

// WatchOptions are the parameters of one WATCH.
type WatchOptions struct {
	// ResourceVersion is where to begin: changes after it.
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
