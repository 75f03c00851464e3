package source

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source opens streams of one resource. Implementations are safe for concurrent use.
//
// A context given to List or Watch covers the whole stream, not just the request: when it ends, so
// does the stream, with the context's cause as error.
//
// Errors are of three kinds. An answer other than 200 is a *apierrors.StatusError (errors.As, or
// apierrors.IsGone and its kin), with Retry-After filled in. A request that got no answer is an
// error that names method and path and wraps the transport's. An answer that cannot be read wraps
// [ErrMediaType] or a wire.SyntaxError.
type Source interface {
	// List opens a LIST. It returns once the answer has begun.
	List(ctx context.Context, o ListOptions) (*List, error)
	// Watch opens a WATCH. It returns once the answer has begun, which may be before the first
	// event.
	Watch(ctx context.Context, o WatchOptions) (*Watch, error)
	// NewestVersion returns the server's newest resourceVersion, by a LIST of one object that is
	// read to its end: where an answer's items come first, the resourceVersion stands behind them.
	// It is a consistent one, and that of all resources of an etcd. With atLeast it is not older
	// than that, or the error is a 504 with the cause ResourceVersionTooLarge; servers that do not
	// know what that means answer with what they have. "" is a server that tells none. It may be
	// called while a stream is open.
	NewestVersion(ctx context.Context, atLeast string) (string, error)
	// ServerVersion tells the version of the Kubernetes API server, such as 1, 37. Sources cache
	// it.
	ServerVersion(ctx context.Context) (major, minor int, err error)
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
	// SendInitialEvents asks for the state as ADDED events, ended by an annotated bookmark
	// (KEP-3157).
	SendInitialEvents bool
	// AllowBookmarks asks for BOOKMARK events.
	AllowBookmarks bool
	// Timeout asks the server to end the watch after so long (whole seconds). 0 leaves it to the
	// server, and then nothing here ends a dead connection but the transport's own keep-alive.
	Timeout time.Duration
}
