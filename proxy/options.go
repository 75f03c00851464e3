package proxy

import (
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Options of a Server. Upstream is needed; the zero value of the rest works.
type Options struct {
	// Upstream is the API server, and the proxy's own credentials there. They need list and watch
	// of what is to be held, get of apiservices, create of tokenreviews and subjectaccessreviews,
	// and, for callers with certificates, impersonate.
	Upstream *rest.Config
	// Listen is the address to listen on. Empty: 127.0.0.1:0, a free port.
	Listen string
	// CertFile and KeyFile are the serving certificate. Empty: one that signs itself, from CertDir,
	// or made there, or, where that is empty too, made for this process only.
	CertFile, KeyFile, CertDir string
	// Hosts are names and addresses that a certificate of our own is good for, besides the loopback
	// ones.
	Hosts []string

	// Resources are held from the start: "pods", "deployments.apps", "widgets.v1.example.com". One
	// of an aggregated API server is not.
	Resources []string
	// MemoryBudget bounds, in bytes, what the resources take that are held because somebody asked
	// for them. 0: none are.
	MemoryBudget int64
	// PassConsistent sends LISTs and WATCHes of the current state, without resourceVersion,
	// upstream. Otherwise those of resources with a hundred objects or more are answered from here,
	// once it is proven that what is held is current.
	PassConsistent bool
	// Cached are resources whose LISTs and WATCHes without resourceVersion are answered from here,
	// as old as that may be: "pods", "deployments.apps".
	Cached []string
	// MaxStaleness bounds how old what a LIST, a GET or the beginning of a WATCH is answered with
	// may be: where the upstream has not been heard of for longer, it must be proven to be current,
	// or the read goes upstream. 0: no bound. Who goes on from a resourceVersion, or asks for
	// exactly one, gets it all the same.
	MaxStaleness time.Duration
	// LogBytes bounds the change log of each resource: how far back a watch can be resumed. 0: 8
	// MiB.
	LogBytes int64

	// MaxConnections bounds the open connections; one that waits for a request makes room for a new
	// one. 0: 10,000.
	MaxConnections int
	// MaxRequests and MaxMutating bound the requests that are under way at once, reads and all
	// others, and MaxLongRunning the watches, logs and upgraded connections; who comes on top of
	// these is answered 429, reads and writes after having waited for a seat for five seconds. 0:
	// 1,000, 200 and 100,000.
	MaxRequests, MaxMutating, MaxLongRunning int
	// MaxWatchesPerUser bounds the watches, logs and upgraded connections of one user. 0: half of
	// MaxLongRunning.
	MaxWatchesPerUser int
	// WatchMemory bounds, in bytes, what all watches take together: their connections, themselves,
	// and what is kept for those that are late. A watch that would begin above it is answered 429.
	// 0: 2 GiB. Negative: it has no bound.
	WatchMemory int64

	Authentication Authentication
	Audit          Audit
	// Recheck is how often the caller of each watch is asked about, as long as twenty questions a
	// second suffice: one for each token, and one for each permission of a caller. 0: a minute.
	Recheck time.Duration
	// RecheckMax is how often they are asked about in any case, however many there are. 0: an hour,
	// after which a kube-apiserver has ended each watch.
	RecheckMax time.Duration
	// Grace is how long the last answer about a caller counts, for reads and watches, while the
	// upstream cannot be reached: gives no HTTP answer at all. 0: an hour. Negative: not at all.
	Grace time.Duration

	// FlushInterval is the least time between two writes to a watcher while changes keep coming. 0:
	// 25 ms. Negative: every change is written at once.
	FlushInterval time.Duration
	// ExpireLate ends watches that have fallen behind the change log with 410 Expired, in place of
	// going on from the state.
	ExpireLate bool
	// ShutdownDelay is how long Run goes on serving once it is to end: see Server.Shutdown. 0: not
	// at all.
	ShutdownDelay time.Duration
	// GoawayChance is how likely an HTTP/2 client is asked, with an answer, to go on by another
	// connection, so that replicas behind a load balancer share what they serve evenly: from 0,
	// never, to MaxGoawayChance. What is open on the connection goes on, watches too.
	GoawayChance float64
	// BookmarkInterval and MinWatch are those of watchcache.Config.
	BookmarkInterval, MinWatch time.Duration
	// Log is told what an operator should know. nil: nobody is.
	Log *slog.Logger

	timeouts timeouts
}

// timeouts is how long the server waits for others.
type timeouts struct {
	header time.Duration // for the head of a request, and for TLS
	idle   time.Duration // for the next request
	// ping is after how much silence an HTTP/2 client is asked whether it is there, pong how long
	// it has to say so. HTTP/1 connections have TCP's own keepalive.
	ping, pong time.Duration
	discard    time.Duration // for a body that nobody wants
	seat       time.Duration // for a seat
	review     time.Duration // for the upstream's answer about a caller
	origin     time.Duration // between two questions who serves what is held
	read       time.Duration // for its answer to a read that the proxy could not give yet; it waits for three seconds itself
}

var defaultTimeouts = timeouts{
	header: 30 * time.Second, idle: 2 * time.Minute, ping: 30 * time.Second, pong: 15 * time.Second, discard: 10 * time.Second,
	seat: 5 * time.Second, review: 10 * time.Second, origin: time.Minute, read: 4 * time.Second,
}

// Authentication says whom to believe. The zero value is what the upstream publishes for servers
// behind it, in the ConfigMap kube-system/extension-apiserver-authentication; what the proxy may
// not read there is not believed.
type Authentication struct {
	// ClientCAFile is the CA of client certificates, in place of the published one.
	ClientCAFile string
	// RequestHeaderCAFile is the CA of front proxies' certificates, in place of the published one;
	// then the other fields hold too.
	RequestHeaderCAFile string
	// RequestHeaderNames are the common names that front proxies may have. Empty: any.
	RequestHeaderNames []string
	// UserHeaders, UIDHeaders, GroupHeaders and ExtraPrefixes are the headers of a front proxy.
	// Empty: X-Remote-User, X-Remote-Uid, X-Remote-Group, X-Remote-Extra-.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
	// SkipLookup leaves the published CAs alone.
	SkipLookup bool
	// TokenTTL, AllowTTL and DenyTTL are how long answers of TokenReview and SubjectAccessReview
	// are kept. 0: 10 seconds.
	TokenTTL, AllowTTL, DenyTTL time.Duration
}

// ErrOptions: the options cannot be served.
var ErrOptions = errors.New("proxy: options")

// MaxGoawayChance bounds Options.GoawayChance, as kube-apiserver does: more would be spent on
// connections than on answers.
const MaxGoawayChance = 0.02

const (
	defaultRecheck    = time.Minute
	defaultRecheckMax = time.Hour
	defaultGrace      = time.Hour
	defaultFlush      = 25 * time.Millisecond
	defaultTTL        = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	orDefault(&o.Recheck, defaultRecheck)
	orDefault(&o.RecheckMax, defaultRecheckMax)
	if o.Grace == 0 {
		o.Grace = defaultGrace
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

// parseResource reads a resource as Options name it. The version is empty where it is not said.
func parseResource(s string) (schema.GroupVersionResource, error) {
	full, short := schema.ParseResourceArg(s)
	switch {
	case full != nil && looksLikeVersion(full.Version):
		return *full, nil
	case short.Resource == "":
		return schema.GroupVersionResource{}, errors.Join(ErrOptions, errors.New("no resource in "+s))
	}
	gvr := short.WithVersion("")
	if gvr.Group == "" {
		gvr.Version = "v1"
	}
	return gvr, nil
}

// looksLikeVersion tells widgets.v1.example.com from ingresses.networking.k8s.io.
func looksLikeVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}
