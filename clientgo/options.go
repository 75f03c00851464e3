package clientgo

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/reflector"
)

// Options configure one informer. The zero value is what NewSharedIndexInformer uses.
type Options struct {
	// PinDecoded stores every object as a decoded value instead of packed bytes, as client-go does.
	// It uses as much memory as client-go, and reads never decode.
	PinDecoded bool
	// ShareDecoded lets decoded objects share equal slices, maps and pointers outside their
	// metadata, and versions of one object everything that has not changed. Decoding then uses
	// about two thirds of the CPU and a third of the memory. No handler, reader or index function
	// may then change an object: the change would appear in other objects too, even in some that
	// are decoded later. Without ShareDecoded two objects or versions share nothing mutable, as in
	// client-go. It has no effect together with PinDecoded, PrivateCopies or DetectMutation.
	ShareDecoded bool
	// PrivateCopies gives every reader and every handler its own deep copy, which it may change. An
	// object whose DeepCopyObject panics or returns nil is still shared.
	PrivateCopies bool
	// DetectMutation panics with the key of a shared object that was changed, like client-go's
	// mutation detector. It costs a copy of each object that is read. The environment variable
	// KUBE_CACHE_MUTATION_DETECTOR=true sets it for all informers, as with client-go.
	DetectMutation bool
	// NoCapture makes the informer use the results of List and Watch even if the transport is
	// wrapped. Set it for a ListerWatcher that changes its client's response, for example filters
	// it or fills in fields. Set it too for one whose client has a codec that sets defaults or
	// converts: otherwise the informer decodes the objects as the server sent them.
	NoCapture bool
	// Scheme is asked for the kind of the example before client-go's own scheme. If neither knows
	// the type, its kind is the one that the example states, or else the name of its Go type. Only
	// responses with objects of that kind are captured.
	Scheme *runtime.Scheme
	// ResyncOnRelist passes all objects to every handler again after each relist, as client-go does
	// for handlers that are due for a resync. Otherwise handlers receive only the changes that a
	// relist found.
	ResyncOnRelist bool
	// DecodedBudget limits, in estimated bytes, the decoded objects in the cache: those that are
	// read often, and those that handlers are about to receive. The second kind uses at most half
	// of it, and at most LogBytes. If it is 0 the first kind has no limit.
	DecodedBudget int64
	// DecodedIdle is how long an object stays decoded after its last read, from its second read
	// within that time on. The default is 15 seconds. If everything is listed twice within a
	// minute, all objects stay decoded until a minute after the last List, unless they exceed
	// DecodedBudget.
	DecodedIdle time.Duration
	// LogBytes limits the change log, in bytes, and the decoded objects that it keeps for handlers.
	// A handler that lags behind the log receives the newest state of each changed object. The
	// default is 8 MiB.
	LogBytes int64
	// Shard restricts the informer to one of Count equal parts of the objects, by a hash of their
	// uid: each of N replicas of a program stores 1/N of the objects and, if the server supports
	// shard selectors, receives no others. The informer drops objects of other shards undecoded.
	// The zero value selects all objects. An invalid shard panics; see Shard.Validate. Objects of a
	// fake clientset have no uid, so they are all in one shard.
	Shard weir.Shard
	// ListWatch configures lists and watches. ModeAuto means ModeList, because a ListerWatcher does
	// not know which server it talks to.
	ListWatch weir.ListWatch
	// Server is shared by the informers of one API server. If it is nil, an informer of a factory
	// uses the factory's, and any other informer has its own.
	Server *weir.ServerGroup
}

// reflectorConfig returns the reflector's configuration.
func (o *Options) reflectorConfig() reflector.Config {
	l := &o.ListWatch
	cfg := reflector.Config{
		Mode: reflector.Mode(l.Mode), Consistency: reflector.Consistency(l.Consistency), PageSize: l.PageSize, WatchTimeout: l.WatchTimeout,
		BookmarkDeadline: l.BookmarkDeadline, MaxLists: l.MaxLists, Backoff: reflector.Backoff(l.Backoff), Server: (*reflector.Server)(o.Server),
	}
	if cfg.Mode == reflector.Auto {
		cfg.Mode = reflector.List
	}
	return cfg
}

// Option configures a factory.
type Option func(*settings)

// settings is what a factory's options set.
type settings struct {
	namespace    string
	tweak        func(*metav1.ListOptions)
	transform    cache.TransformFunc
	customResync map[metav1.Object]time.Duration // keyed by an object of the type
	name         *cache.InformerName
	informer     Options
	shard        *weir.Shard // replaces informer.Shard unless nil
}

func settingsOf(opts []Option) settings {
	layoutKnown() // logs now why informers stay client-go's
	s := settings{customResync: map[metav1.Object]time.Duration{}}
	for _, opt := range opts {
		opt(&s)
	}
	if s.shard != nil {
		s.informer.Shard = *s.shard
	}
	if s.informer.Server == nil {
		s.informer.Server = &weir.ServerGroup{} // a factory's informers share a server
	}
	return s
}

// adopt returns an informer of this package that replaces client-go's, if that can be adopted. It
// uses description if the informer has none. It sets the factory's transform.
func (s *settings) adopt(inf cache.SharedIndexInformer, description string) cache.SharedIndexInformer {
	inf = adopt(inf, description, s.informer)
	if s.transform != nil {
		_ = inf.SetTransform(s.transform) // fails only if the informer has started
	}
	return inf
}

// WithNamespace restricts the factory's informers to one namespace.
func WithNamespace(namespace string) Option { return func(s *settings) { s.namespace = namespace } }

// WithTweakListOptions sets a function that changes the options of each LIST and WATCH, for example
// to set a selector.
func WithTweakListOptions(tweak func(*metav1.ListOptions)) Option {
	return func(s *settings) { s.tweak = tweak }
}

// WithTransform sets a transform on all the factory's informers. docs/differences.md describes what
// a transform may do.
func WithTransform(transform cache.TransformFunc) Option {
	return func(s *settings) { s.transform = transform }
}

// WithCustomResyncConfig sets other resync periods for the types of some objects. It has no effect
// on the dynamic and the metadata factory.
func WithCustomResyncConfig(resync map[metav1.Object]time.Duration) Option {
	return func(s *settings) { maps.Copy(s.customResync, resync) }
}

// WithInformerName sets a name that Shutdown releases. Under it, Weir's informers publish
// client-go's metric informer_store_resource_version, but none of a FIFO, which they do not have.
// Before client-go 0.37 neither its informers nor Weir's publish any. It has no effect on the
// dynamic and the metadata factory.
func WithInformerName(name *cache.InformerName) Option { return func(s *settings) { s.name = name } }

// WithOptions sets the options of the factory's informers.
func WithOptions(opts Options) Option { return func(s *settings) { s.informer = opts } }

// WithShard restricts the factory's informers to one shard. It takes precedence over Options.Shard.
// Informers that are client-go's own have all objects.
func WithShard(s weir.Shard) Option { return func(to *settings) { to.shard = &s } }
