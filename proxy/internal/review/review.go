// Package review determines who the proxy's callers are and what they may do. It verifies
// certificates with CAs that the user gives or the upstream publishes, and asks the upstream about
// tokens and permissions. It caches the answers for a bounded time, also for outages, and asks
// again about the callers of open watches.
package review

import (
	"errors"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/proxy/internal/seats"
)

// Config configures which callers are trusted, and how the proxy asks the upstream about callers.
type Config struct {
	Trust Trust
	// OutageGrace is how long answers are cached for outages of the upstream.
	OutageGrace time.Duration
	// Timeout bounds a review. Lookup is the time between two attempts to read the published CAs.
	Timeout, Lookup time.Duration
	Client          kubernetes.Interface
	Breaker         *Breaker
	Seats           *seats.Pool // bounds the concurrent reviews
	Log             *slog.Logger
}

// Trust contains the fields of the proxy's Authentication, which documents them.
type Trust struct {
	ClientCAFile, RequestHeaderCAFile                    string
	RequestHeaderNames                                   []string
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
	SkipLookup                                           bool
	TokenTTL, AllowTTL, DenyTTL                          time.Duration
}

// ErrFile is returned by NewAuthenticator for a CA file that it cannot read.
var ErrFile = errors.New("cannot read a CA file")
