// Package review finds out who the proxy's callers are and what they may do: by certificates, whose
// CAs the upstream publishes, and by asking the upstream about tokens and permissions. It keeps the
// answers for a bounded time, also for outages, and asks again about the callers of open watches.
package review

import (
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/proxy/internal/seats"
)

// Config configures who is trusted, and how the upstream is asked about callers.
type Config struct {
	Trust Trust
	// OutageGrace is how long answers are kept for outages of the upstream.
	OutageGrace time.Duration
	// Timeout bounds a review, and Lookup is the time between two attempts to read the published CAs.
	Timeout, Lookup time.Duration
	Client          kubernetes.Interface
	Breaker         *Breaker
	Seats           *seats.Pool // bounds the concurrent reviews
	Log             *slog.Logger
}

// Trust has the fields of the proxy's Authentication.
type Trust struct {
	ClientCAFile, RequestHeaderCAFile                    string
	RequestHeaderNames                                   []string
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
	SkipLookup                                           bool
	TokenTTL, AllowTTL, DenyTTL                          time.Duration
}

// FileError is returned for a file that cannot be read.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the file.
func (e *FileError) Unwrap() error { return e.Err }
