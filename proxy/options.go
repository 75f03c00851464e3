package proxy

import (
	"cmp"
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
	// Upstream is the configuration for the API server, with the proxy's own credentials. The
	// credentials need list and watch of the cached resources, get of apiservices, and create of
	// tokenreviews and subjectaccessreviews. To serve callers with certificates, they also need
	// impersonate.
	Upstream *rest.Config
	// Listen is the TCP address to listen on. Empty: 127.0.0.1:0, which selects a free port.
	Listen string
	// HealthListen is another TCP address, which answers only /livez, /readyz and /healthz, in plain
	// HTTP. Empty: there is none.
	HealthListen string
	// CertFile and KeyFile are the serving certificate and its key. If they are empty, the proxy
	// generates a CA that is valid for ten years. With this CA it signs a certificate that is valid
	// for one year and renewed after eight months. The proxy stores both in CertDir, or in memory if
	// CertDir is empty.
	CertFile, KeyFile, CertDir string
	// Hosts are names and addresses for which the generated certificate is valid, in addition to the
	// loopback names and addresses.
	Hosts []string

	// Resources are the resources to cache from the start, for example "pods", "deployments.apps" or
	// "widgets.v1.example.com". Resources of aggregated API servers are never cached.
	Resources []string
	// MemoryBudget bounds, in bytes, the memory of resources that are cached on demand, because a
	// client read them. 0: the proxy caches no resource on demand.
	MemoryBudget int64
	// ForwardConsistent forwards all consistent reads: LISTs and WATCHes without resourceVersion.
	// If it is false, the proxy answers consistent reads of resources with a hundred objects or
	// more from its cache. Before each answer it proves that the cache is current.
	ForwardConsistent bool
	// TrustCache names resources ("pods", "deployments.apps"). The proxy answers consistent LISTs and
	// WATCHes of these resources from the cache without a proof that it is current. Only MaxStaleness
	// bounds the age of the cache for them.
	TrustCache []string
	// MaxStaleness bounds the age of the cache that answers a LIST, a GET or the initial state of a
	// WATCH. The age is the time since the upstream last confirmed the cached state. If the cache
	// is older, the proxy either proves that the cache is current, or forwards the read. 0: no
	// bound. Reads of an exact resourceVersion are not affected.
	MaxStaleness time.Duration
	// LogBytes bounds, in bytes, the change log of each resource, and thereby how far back a watch can
	// resume. 0: 8 MiB.
	LogBytes int64

	// MaxConnections bounds the open connections. At the limit, the proxy closes an idle connection to
	// accept a new one. 0: 10,000.
	MaxConnections int
	// MaxConnectionsPerSource bounds the open connections of one client address. Set it only if
	// clients connect directly: all clients behind one load balancer or NAT share an address. 0: no
	// bound.
	MaxConnectionsPerSource int
	// MaxRequests bounds the reads in progress. MaxLongRunning bounds the watches, logs and upgraded
	// connections. MaxMutating bounds all other requests. Further requests get 429. A read or another
	// short request first waits up to five seconds for a seat, which is a place among the requests in
	// progress. 0: 1,000 reads, 100,000 long-running and 200 other requests.
	MaxRequests, MaxMutating, MaxLongRunning int
	// MaxWatchesPerUser bounds the watches, logs and upgraded connections of one user. 0: half of
	// MaxLongRunning.
	MaxWatchesPerUser int
	// WatchMemory bounds, in bytes, the memory of all watches together. This is the memory of the
	// watches and their connections, the buffers of forwarded watches, and the backlog of slow
	// clients. Above the bound, a new watch gets 429. 0: 2 GiB. Negative: no bound.
	WatchMemory int64
	// ResponseMemory bounds, in bytes, the memory of responses that clients have not read yet. It does
	// not include watches. A user outside the control plane may use half of it. Above the bound, a
	// read gets 429. 0: 256 MiB. Negative: no bound.
	ResponseMemory int64

	Authentication Authentication
	Audit          Audit
	// Recheck is the time between two reviews of the caller of each watch. The proxy sends one
	// review for each token, and one for each permission of a caller. If these need more than
	// twenty reviews a second, the time grows, up to RecheckMax. 0: one minute.
	Recheck time.Duration
	// RecheckMax bounds the time between two reviews of the caller of a watch. It applies even if
	// the proxy must then send more than twenty reviews a second. 0: one hour, after which
	// kube-apiserver would have ended every watch.
	RecheckMax time.Duration
	// OutageGrace is for outages: while the upstream sends no HTTP answer at all, the proxy decides
	// about reads and watches by the last review answer for their caller. OutageGrace is how long such
	// an answer remains valid. 0: one hour. Negative: an old answer is never valid.
	OutageGrace time.Duration

	// FlushInterval bounds the time between two writes to a watcher while changes keep arriving.
	// The proxy chooses a time up to this bound: on two CPUs, a quarter of a millisecond for each
	// watcher to which it writes. 0: 25 ms. Negative: each change is written immediately.
	FlushInterval time.Duration
	// ExpireSlowWatches ends a slow watch with 410 Expired. A watch is slow if it has fallen behind
	// the change log. A watch with a selector or a namespace is also slow if more than 64 changes
	// wait for it. After a relist that found changes, watches that would receive these changes end
	// too. If ExpireSlowWatches is false, the proxy instead sends such a watch one change for each
	// changed object.
	ExpireSlowWatches bool
	// ShutdownDelay is how long Run continues to serve after ctx has ended; see Server.Shutdown. 0:
	// no delay.
	ShutdownDelay time.Duration
	// GoawayChance is the probability that a response asks an HTTP/2 client to use another connection
	// (GOAWAY), so that replicas behind a load balancer share the load. It must be between 0 (never)
	// and MaxGoawayChance. Open streams, including watches, continue.
	GoawayChance float64
	// BookmarkInterval is the time between two bookmarks to a watcher. 0: one minute. MinWatch is the
	// minimum duration of a WATCH without timeoutSeconds; the duration is random, up to twice
	// MinWatch. 0: 30 minutes.
	BookmarkInterval, MinWatch time.Duration
	// Log receives messages for the operator. nil: they are discarded.
	Log *slog.Logger

	timeouts timeouts
}

// timeouts contains the bounds of how long the server waits.
type timeouts struct {
	header time.Duration // for the head of a request, and for the TLS handshake
	idle   time.Duration // how long an HTTP/1 connection may be idle before the next request
	// ping is how long an HTTP/2 client may be silent before the server pings it. pong is how long the
	// client may take to answer. HTTP/1 connections use TCP keepalive.
	ping, pong time.Duration
	discard    time.Duration // for a request body that is discarded or buffered
	body       time.Duration // for any other body of a request that has a seat, see waitBudget
	seat       time.Duration // for a seat
	start      time.Duration // for a WATCH to get a seat to send its initial state
	// how long a WATCH may occupy the seat for its initial state; less than start
	hold   time.Duration
	review time.Duration // for the upstream's answer to a review
	lookup time.Duration // between two attempts to read the published CAs
	// read bounds the wait for the upstream's answer to a forwarded read of a resourceVersion that the
	// cache has not reached. The upstream itself waits three seconds.
	read time.Duration
	mirror.Timeouts
}

var defaultTimeouts = timeouts{
	header: 30 * time.Second, idle: 2 * time.Minute, ping: 30 * time.Second, pong: 15 * time.Second, discard: 10 * time.Second, body: seatGrace,
	seat: 5 * time.Second, start: time.Minute, hold: 10 * time.Second, review: 10 * time.Second, lookup: 5 * time.Second, read: 4 * time.Second,
	Timeouts: mirror.DefaultTimeouts,
}

// Authentication configures which callers are trusted. The zero value uses the CAs that the
// upstream publishes in the ConfigMap kube-system/extension-apiserver-authentication. Until the
// proxy can read a published CA, it trusts no certificate of that CA.
type Authentication struct {
	// ClientCAFile is a file with the CA of client certificates. It replaces the published CA.
	ClientCAFile string
	// RequestHeaderCAFile is a file with the CA of front proxies' certificates. It replaces the
	// published CA, and the fields below then replace the published names and headers.
	RequestHeaderCAFile string
	// RequestHeaderNames are the common names that the certificate of a front proxy may have. Empty:
	// any name.
	RequestHeaderNames []string
	// UserHeaders, UIDHeaders, GroupHeaders and ExtraPrefixes are the headers in which a front proxy
	// names the caller. Empty: X-Remote-User, X-Remote-Uid, X-Remote-Group, X-Remote-Extra-.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
	// SkipLookup ignores the published CAs.
	SkipLookup bool
	// TokenTTL is how long the proxy caches answers of TokenReview. AllowTTL and DenyTTL are how long
	// it caches answers of SubjectAccessReview that allow or deny. 0: 10 seconds.
	TokenTTL, AllowTTL, DenyTTL time.Duration
}

// Audit configures the audit log. The formats of the log and of its policy are those of
// kube-apiserver. The log records the requests that the proxy answers itself, and the requests that
// it forwards for a caller with a certificate who impersonates. The upstream records all other
// forwarded requests. The zero value records nothing.
type Audit struct {
	// PolicyFile is a file with a Policy of audit.k8s.io/v1. The proxy forwards a read if the policy
	// requires its response to be recorded.
	PolicyFile string
	// LogPath is the file to append to; "-" is standard output. The file is rotated at MaxSize
	// megabytes (0: 100). MaxBackups old files are kept (0: all), for MaxAge days (0: forever).
	LogPath                     string
	MaxSize, MaxBackups, MaxAge int
	// WebhookConfigFile is a kubeconfig for a webhook that also receives the events, in batches. Up to
	// 10,000 events are buffered for it.
	WebhookConfigFile string
}

// ErrInvalidOptions is returned for options that are invalid.
var ErrInvalidOptions = errors.New("proxy: options")

// MaxGoawayChance bounds Options.GoawayChance, as in kube-apiserver. With a higher chance, new
// connections would cost more than the answers.
const MaxGoawayChance = 0.02

const (
	defaultListen     = "127.0.0.1:0"
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

// Validate returns an error that wraps ErrInvalidOptions if New would refuse the options on every
// machine. It reads no file, and it does not check Upstream.
func (o *Options) Validate() error {
	if o.GoawayChance < 0 || o.GoawayChance > MaxGoawayChance {
		return fmt.Errorf("%w: GOAWAY chance %v: want 0 to %v", ErrInvalidOptions, o.GoawayChance, MaxGoawayChance)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return fmt.Errorf("%w: a certificate needs its key, and a key its certificate", ErrInvalidOptions)
	}
	if err := validAddress(cmp.Or(o.Listen, defaultListen)); err != nil {
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

// validSizes returns an error if a duration or bound is negative, unless a negative value has a
// meaning.
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

// validAddress returns an error for a TCP address without a port, or with an unknown port name.
func validAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = net.LookupPort("tcp", port)
	return err
}

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, defaultListen)
	o.Recheck = cmp.Or(o.Recheck, defaultRecheck)
	o.RecheckMax = cmp.Or(o.RecheckMax, defaultRecheckMax)
	o.OutageGrace, o.FlushInterval = cmp.Or(o.OutageGrace, defaultGrace), cmp.Or(o.FlushInterval, defaultFlush)
	o.MaxConnections = cmp.Or(o.MaxConnections, defaultConnections)
	o.MaxRequests = cmp.Or(o.MaxRequests, defaultReadOnly)
	o.MaxMutating = cmp.Or(o.MaxMutating, defaultMutating)
	o.MaxLongRunning = cmp.Or(o.MaxLongRunning, defaultLongRunning)
	o.MaxWatchesPerUser = cmp.Or(o.MaxWatchesPerUser, max(o.MaxLongRunning/2, 1))
	o.WatchMemory, o.ResponseMemory = cmp.Or(o.WatchMemory, defaultWatchMemory), cmp.Or(o.ResponseMemory, defaultResponseMemory)
	a := &o.Authentication
	a.TokenTTL = cmp.Or(a.TokenTTL, defaultTTL)
	a.AllowTTL = cmp.Or(a.AllowTTL, defaultTTL)
	a.DenyTTL = cmp.Or(a.DenyTTL, defaultTTL)
	for to, value := range map[*[]string]string{
		&a.UserHeaders: "X-Remote-User", &a.UIDHeaders: "X-Remote-Uid", &a.GroupHeaders: "X-Remote-Group", &a.ExtraPrefixes: "X-Remote-Extra-",
	} {
		if len(*to) == 0 {
			*to = []string{value}
		}
	}
	o.timeouts = cmp.Or(o.timeouts, defaultTimeouts)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// parseResources parses the resource names of an option.
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

// parseResource parses one resource name of an option. The result's version is empty if s has a
// group but no version.
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

// looksLikeVersion reports whether s looks like an API version. It distinguishes
// widgets.v1.example.com, which has a version, from ingresses.networking.k8s.io, which has none.
func looksLikeVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}
