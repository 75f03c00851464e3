package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/proxy/internal/audit"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// Options configure a Server. Upstream is required; the zero value of every other field works.
type Options struct {
	// Upstream is the API server and the proxy's own credentials. They need list and watch of the
	// cached resources, get of apiservices, create of tokenreviews and subjectaccessreviews, and,
	// for callers with certificates, impersonate.
	Upstream *rest.Config
	// Listen is the TCP address to listen on. Empty: 127.0.0.1:0, a free port.
	Listen string
	// HealthListen is another TCP address, which answers /livez, /readyz and /healthz in plain
	// HTTP, and nothing else. Empty: there is none.
	HealthListen string
	// CertFile and KeyFile are the serving certificate. Empty: the proxy makes one for a year, by a
	// CA of its own for ten, and renews it after eight months. Both are kept in CertDir, or in
	// memory if that is empty too.
	CertFile, KeyFile, CertDir string
	// Hosts are the names and addresses of a self-signed certificate, in addition to the loopback
	// ones.
	Hosts []string

	// Resources are cached from the start: "pods", "deployments.apps", "widgets.v1.example.com".
	// Resources of aggregated API servers are never cached.
	Resources []string
	// MemoryBudget bounds, in bytes, the resources that are cached on demand, because a client read
	// them. 0: none are.
	MemoryBudget int64
	// ForwardConsistent forwards all consistent reads: LISTs and WATCHes without resourceVersion.
	// false: the proxy answers them for resources with a hundred objects or more, once its copy is
	// proven to be current.
	ForwardConsistent bool
	// TrustCache names resources ("pods", "deployments.apps") whose consistent reads are answered
	// without proof, however old the copy is.
	TrustCache []string
	// MaxStaleness bounds the age of the copy that answers a LIST, a GET or the initial state of a
	// WATCH. If for longer nothing has shown it to be the upstream's state, it must be proven to be
	// current, or the read is forwarded. 0: no bound. Reads of an exact resourceVersion are not
	// affected.
	MaxStaleness time.Duration
	// LogBytes bounds the change log of each resource, and so how far back a watch can resume. 0: 8
	// MiB.
	LogBytes int64

	// MaxConnections bounds the open connections. At the limit, an idle connection is closed for a
	// new one. 0: 10,000.
	MaxConnections int
	// MaxConnectionsPerSource bounds the open connections of one address. It is for clients that
	// connect directly: those behind one load balancer or NAT have one address. 0: no bound.
	MaxConnectionsPerSource int
	// MaxRequests and MaxMutating bound the reads and all other requests in progress;
	// MaxLongRunning bounds the watches, logs and upgraded connections. Further requests get 429;
	// reads and writes wait for a seat for five seconds first. 0: 1,000, 200 and 100,000.
	MaxRequests, MaxMutating, MaxLongRunning int
	// MaxWatchesPerUser bounds the watches, logs and upgraded connections of one user. 0: half of
	// MaxLongRunning.
	MaxWatchesPerUser int
	// WatchMemory bounds, in bytes, the memory of all watches: their connections, themselves, what
	// forwards them, and what is kept for slow ones. A new watch above it gets 429. 0: 2 GiB.
	// Negative: no bound.
	WatchMemory int64
	// ResponseMemory bounds, in bytes, the memory of responses that clients have not read yet, but
	// for those of watches. A user who does not run the cluster may have half of it. A read above
	// it gets 429. 0: 256 MiB. Negative: no bound.
	ResponseMemory int64

	Authentication Authentication
	Audit          Audit
	// Recheck is how often the caller of each watch is reviewed, as long as twenty reviews a second
	// suffice: one for each token, and one for each permission of a caller. 0: one minute.
	Recheck time.Duration
	// RecheckMax is the longest time between two such reviews, however many there are. 0: one hour,
	// after which kube-apiserver has ended each watch.
	RecheckMax time.Duration
	// OutageGrace is how long the last answer about a caller counts, for reads and watches, while
	// the upstream gives no HTTP answer at all. 0: one hour. Negative: not at all.
	OutageGrace time.Duration

	// FlushInterval bounds the time between two writes to a watcher while changes keep coming. The
	// time grows with the number of watchers that are written to: it is a quarter of a millisecond
	// for each, on two CPUs. 0: 25 ms. Negative: each change is written at once.
	FlushInterval time.Duration
	// ExpireSlowWatches ends with 410 Expired each watch that has fallen behind the change log, has
	// more than 64 changes waiting (with a selector or a namespace), or would get what a relist
	// found. false: they are caught up, with one change for each object.
	ExpireSlowWatches bool
	// ShutdownDelay is how long Run keeps serving after ctx has ended; see Server.Shutdown. 0: not
	// at all.
	ShutdownDelay time.Duration
	// GoawayChance is the probability that a response asks an HTTP/2 client to use another
	// connection (GOAWAY), so that replicas behind a load balancer share the load. It lies between
	// 0 (never) and MaxGoawayChance. Open streams, watches too, go on.
	GoawayChance float64
	// BookmarkInterval is the time between two bookmarks of a watcher; 0: one minute. MinWatch is
	// the least duration of a WATCH without timeoutSeconds, which lasts up to twice that; 0: 30
	// minutes.
	BookmarkInterval, MinWatch time.Duration
	// Log gets what an operator should know. nil: it is discarded.
	Log *slog.Logger

	timeouts timeouts
}

// timeouts bounds how long the server waits.
type timeouts struct {
	header time.Duration // for the head of a request, and for the TLS handshake
	idle   time.Duration // for the next request
	// ping is the silence after which an HTTP/2 client is pinged, pong how long it may take to
	// answer. HTTP/1 connections have TCP keepalive.
	ping, pong time.Duration
	discard    time.Duration // for a request body that is discarded, or buffered
	body       time.Duration // for another body of a request that has a seat, see waitBudget
	seat       time.Duration // for a seat
	start      time.Duration // for the seat of a WATCH that begins
	hold       time.Duration // how long such a WATCH has it; less than start, so that others get one
	review     time.Duration // for the upstream's answer to a review
	lookup     time.Duration // time between two attempts to read the published CAs
	// read is for the upstream's answer to a forwarded read that the proxy is too old for. The
	// upstream waits three seconds itself.
	read time.Duration
	mirror.Timeouts
}

var defaultTimeouts = timeouts{
	header: 30 * time.Second, idle: 2 * time.Minute, ping: 30 * time.Second, pong: 15 * time.Second, discard: 10 * time.Second, body: seatGrace,
	seat: 5 * time.Second, start: time.Minute, hold: 10 * time.Second, review: 10 * time.Second, lookup: 5 * time.Second, read: 4 * time.Second,
	Timeouts: mirror.DefaultTimeouts,
}

// Authentication configures which callers are trusted. The zero value uses what the upstream
// publishes in the ConfigMap kube-system/extension-apiserver-authentication. What the proxy cannot
// read there is not trusted until it can.
type Authentication struct {
	// ClientCAFile is the CA of client certificates. It replaces the published one.
	ClientCAFile string
	// RequestHeaderCAFile is the CA of front proxies' certificates. It replaces the published one,
	// and then the fields below apply.
	RequestHeaderCAFile string
	// RequestHeaderNames are the common names that front proxies may have. Empty: any.
	RequestHeaderNames []string
	// UserHeaders, UIDHeaders, GroupHeaders and ExtraPrefixes are the headers of a front proxy.
	// Empty: X-Remote-User, X-Remote-Uid, X-Remote-Group, X-Remote-Extra-.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
	// SkipLookup ignores the published CAs.
	SkipLookup bool
	// TokenTTL, AllowTTL and DenyTTL are how long answers of TokenReview and SubjectAccessReview
	// are cached. 0: 10 seconds.
	TokenTTL, AllowTTL, DenyTTL time.Duration
}

// Audit configures the audit log, in kube-apiserver's format and by a policy of its kind, of
// requests that the proxy answers itself, and of those that it forwards for a caller with a
// certificate who impersonates. The upstream records other forwarded requests. The zero value
// records nothing.
type Audit struct {
	// PolicyFile is a file with a Policy of audit.k8s.io/v1. Reads that are to be recorded with
	// their response are forwarded.
	PolicyFile string
	// LogPath is the file to append to; "-" is standard output. The file is rotated at MaxSize
	// megabytes (0: 100). MaxBackups old files are kept (0: all), for MaxAge days (0: for ever).
	LogPath                     string
	MaxSize, MaxBackups, MaxAge int
	// WebhookConfigFile is a kubeconfig for a webhook that receives the events too, in batches. At
	// most 10,000 events are buffered.
	WebhookConfigFile string
}

// ErrInvalidOptions is returned for options that are invalid.
var ErrInvalidOptions = errors.New("proxy: options")

// MaxGoawayChance bounds Options.GoawayChance, as in kube-apiserver. A higher chance would cost
// more for connections than for answers.
const MaxGoawayChance = 0.02

const (
	defaultRecheck    = time.Minute
	defaultRecheckMax = time.Hour
	defaultGrace      = time.Hour
	defaultFlush      = 25 * time.Millisecond
	defaultTTL        = 10 * time.Second

	defaultConnections = 10_000
	defaultReadOnly    = 1000
	defaultMutating    = 200
	defaultLongRunning = 100_000

	defaultWatchMemory    = 2 << 30
	defaultResponseMemory = 256 << 20
)

// Validate returns an error that wraps ErrInvalidOptions for options that New refuses in any case.
// It reads no file, and does not need Upstream.
func (o *Options) Validate() error {
	if o.GoawayChance < 0 || o.GoawayChance > MaxGoawayChance {
		return fmt.Errorf("%w: a chance of GOAWAY of %v: want 0 to %v", ErrInvalidOptions, o.GoawayChance, MaxGoawayChance)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return fmt.Errorf("%w: a certificate needs its key, and a key its certificate", ErrInvalidOptions)
	}
	if err := validAddress(o.Listen); err != nil {
		return fmt.Errorf("%w: an address to listen on: %w", ErrInvalidOptions, err)
	}
	if err := o.validSizes(); err != nil {
		return err
	}
	if _, err := parseResources(slices.Concat(o.Resources, o.TrustCache)); err != nil {
		return err
	}
	c := audit.Config(o.Audit)
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	return nil
}

// validSizes returns an error for a duration or a bound below zero that means nothing.
func (o *Options) validSizes() error {
	a := &o.Authentication
	for name, d := range map[string]time.Duration{
		"a staleness": o.MaxStaleness, "a recheck": o.Recheck, "the longest time between rechecks": o.RecheckMax, "a shutdown delay": o.ShutdownDelay,
		"a TTL of tokens": a.TokenTTL, "a TTL of permissions": a.AllowTTL, "a TTL of denials": a.DenyTTL,
	} {
		if d < 0 {
			return fmt.Errorf("%w: %s of %v: want 0 or more", ErrInvalidOptions, name, d)
		}
	}
	for name, n := range map[string]int64{
		"connections": int64(o.MaxConnections), "reads in progress": int64(o.MaxRequests), "other requests in progress": int64(o.MaxMutating),
		"watches": int64(o.MaxLongRunning), "watches of one user": int64(o.MaxWatchesPerUser), "bytes of resources on demand": o.MemoryBudget,
		"bytes of change logs": o.LogBytes,
	} {
		if n < 0 {
			return fmt.Errorf("%w: a bound of %d %s: want 0 or more", ErrInvalidOptions, n, name)
		}
	}
	return nil
}

// validAddress returns an error for a TCP address without a port, or with one that does not exist.
// The empty address is valid.
func validAddress(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = net.LookupPort("tcp", port)
	return err
}

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	orDefault(&o.Recheck, defaultRecheck)
	orDefault(&o.RecheckMax, defaultRecheckMax)
	if o.OutageGrace == 0 {
		o.OutageGrace = defaultGrace
	}
	if o.FlushInterval == 0 {
		o.FlushInterval = defaultFlush
	}
	orDefault(&o.MaxConnections, defaultConnections)
	orDefault(&o.MaxRequests, defaultReadOnly)
	orDefault(&o.MaxMutating, defaultMutating)
	orDefault(&o.MaxLongRunning, defaultLongRunning)
	orDefault(&o.MaxWatchesPerUser, max(o.MaxLongRunning/2, 1))
	if o.WatchMemory == 0 {
		o.WatchMemory = defaultWatchMemory
	}
	if o.ResponseMemory == 0 {
		o.ResponseMemory = defaultResponseMemory
	}
	a := &o.Authentication
	orDefault(&a.TokenTTL, defaultTTL)
	orDefault(&a.AllowTTL, defaultTTL)
	orDefault(&a.DenyTTL, defaultTTL)
	for to, value := range map[*[]string]string{
		&a.UserHeaders: "X-Remote-User", &a.UIDHeaders: "X-Remote-Uid", &a.GroupHeaders: "X-Remote-Group", &a.ExtraPrefixes: "X-Remote-Extra-",
	} {
		if len(*to) == 0 {
			*to = []string{value}
		}
	}
	if o.timeouts == (timeouts{}) {
		o.timeouts = defaultTimeouts
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func orDefault[T int | time.Duration](d *T, otherwise T) {
	if *d <= 0 {
		*d = otherwise
	}
}

// parseResources parses resources in Options.
func parseResources(names []string) (all []schema.GroupVersionResource, err error) {
	for _, name := range names {
		gvr, err := parseResource(name)
		if err != nil {
			return nil, err
		}
		all = append(all, gvr)
	}
	return all, nil
}

// parseResource parses a resource in Options. The version is empty if s has none.
func parseResource(s string) (schema.GroupVersionResource, error) {
	full, short := schema.ParseResourceArg(s)
	switch {
	case full != nil && looksLikeVersion(full.Version):
		return *full, nil
	case short.Resource == "":
		return schema.GroupVersionResource{}, fmt.Errorf("%w: no resource in %q", ErrInvalidOptions, s)
	}
	gvr := short.WithVersion("")
	if gvr.Group == "" {
		gvr.Version = "v1"
	}
	return gvr, nil
}

// looksLikeVersion distinguishes widgets.v1.example.com from ingresses.networking.k8s.io.
func looksLikeVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}
