package clientgo

import (
	"cmp"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/shard"
	"github.com/weirproject/weir/internal/core/store"
)

// Options configure one informer. The zero value is the configuration of NewSharedIndexInformer.
type Options struct {
	// Off makes constructors, factories and Adopt return client-go's informers instead of informers of
	// this package. Use it to go back without a new build: the environment variable WEIR_CLIENTGO=off
	// sets the option for all informers and Reflectors, and disables Wrap. A log line states this
	// once. The informers then have client-go's memory usage and behaviour. Of the other options, only
	// Shard has an effect, without the help of the server; one log line names each other option that
	// has no counterpart. Err returns nil for these informers, and WaitForSync waits until they have
	// synced. The typed API of package weir is not affected.
	Off bool
	// PinDecoded stores every object as a decoded value instead of packed bytes, as client-go does.
	// The informer then uses as much memory as client-go's, and reads never decode.
	PinDecoded bool
	// ShareDecoded makes decoded objects share equal slices, maps and pointers outside their metadata.
	// Versions of one object share everything that has not changed. Decoding then uses about two
	// thirds of the CPU and a third of the memory. Handlers, readers and index functions must then not
	// change any object: the change would appear in other objects too, even in objects that are
	// decoded later. Without ShareDecoded, two objects, or two versions of one object, share nothing
	// mutable, as in client-go. ShareDecoded has no effect if PinDecoded, PrivateCopies or
	// DetectMutation is set.
	ShareDecoded bool
	// PrivateCopies gives every reader and every handler its own deep copy, which it may change. The
	// informer still shares an object whose DeepCopyObject panics or returns nil.
	PrivateCopies bool
	// DetectMutation makes the informer panic with the key of a shared object that a caller changed,
	// like client-go's mutation detector. For this, the informer keeps each returned object and a copy
	// of it for two minutes. The environment variable KUBE_CACHE_MUTATION_DETECTOR=true sets the
	// option for all informers, as with client-go.
	DetectMutation bool
	// NoCapture makes the informer use the objects that List and Watch return, even if it is a
	// factory's, or the client's transport is wrapped. Set it for a ListerWatcher that changes its
	// client's response, for example one that filters objects or fills in fields. Also set it if the
	// client has a codec that sets defaults or converts objects: an informer that captures responses
	// decodes the objects as the server sent them.
	NoCapture bool
	// Scheme defines the kind of the example object. If Scheme is nil or does not contain the
	// example's type, the informer uses client-go's scheme. If neither scheme contains the type, the
	// kind is the one that the example states, or else the name of its Go type. The informer captures
	// only responses with objects of that kind.
	Scheme *runtime.Scheme
	// ResyncOnRelist makes every handler receive all objects again after each relist. client-go does
	// this for handlers that are due for a resync. Without ResyncOnRelist, handlers receive only the
	// changes that the relist found.
	ResyncOnRelist bool
	// DecodedBudget limits the estimated memory of decoded objects, in bytes. It counts the objects
	// that are read often, and the objects that handlers will receive next. The objects for handlers
	// may use at most half of the budget, and at most LogBytes. If DecodedBudget is 0, there is no
	// limit for the objects that are read often.
	DecodedBudget int64
	// DecodedIdle is how long an object stays decoded after its last read, if it was read twice within
	// that time. The default is 15 seconds. If a program lists all objects twice within a minute, and
	// they fit into DecodedBudget, they stay decoded until a minute after the last List. The garbage
	// collector may free any other decoded object when the program no longer uses it. Until then,
	// readers and handlers receive the same pointer.
	DecodedIdle time.Duration
	// LogBytes limits the change log, in bytes, including the decoded objects that it keeps for
	// handlers. A handler that lags so far that the log no longer has its next change receives only
	// the newest state of each changed object. LogBytes also limits the packed changes that relists
	// collect to apply them in one step; with more changes, readers see parts of a relist. The default
	// is 8 MiB.
	LogBytes int64
	// Shard restricts the informer to one of Count equal parts of the objects, by a hash of their uid.
	// N replicas of a program then store 1/N of the objects each. A server that supports shard
	// selectors also sends only 1/N of the objects to each replica. Other servers send all objects;
	// the informer drops the objects of other shards without decoding them. The zero value selects all
	// objects. A constructor panics if the shard is invalid; see Shard.Validate. Objects of a fake
	// clientset have no uid and are therefore all in one shard.
	Shard weir.Shard
	// ListWatch configures how the informer lists and watches. ModeAuto means ModeList here, because a
	// ListerWatcher does not provide the server's version.
	ListWatch weir.ListWatch
	// Shadow runs a second informer next to the one that serves the program, and compares them, so
	// that a team can see for weeks that client-go's informer and this package's behave alike before
	// anything depends on it. The values say which informer serves. Both send their own LISTs and
	// WATCHes. The following is compared:
	//   - for each object, the content of equal resourceVersions;
	//   - for each handler, the order of each object's versions, its newest version, and deletions.
	//     One side may skip versions, because Weir's handlers do after they lagged, and both do after
	//     a relist; such versions are counted.
	//
	// A difference counts after 30 seconds. An informer that has not received a version, for
	// example because it lists again, has 5 minutes, and so has one that has not reported a
	// deletion that the other has found in a list. Handlers that are busy for most of the time are
	// not judged. Err returns ErrShadow for a difference. A log line names the key and the paths of
	// fields but no values; it is logged at most once a minute. package metrics exports the counts.
	// An hourly log line states what was compared, because no difference means little without that.
	// For a handler that is added after the start, as controller-runtime does, the objects that it
	// first receives are those of each informer at that time, which may have other versions.
	//
	// HasSynced, reads and indexes concern only the serving informer. A failure of the shadow does
	// not affect it, except that the ListerWatcher and the transform are also called for the
	// shadow; index functions are not. The comparison needs about 40 bytes per object and handler,
	// up to 2 KiB for an object while one side lags, and it encodes each version twice. It does not
	// compare indexes, resyncs and versions without an integer resourceVersion. The reflectors and
	// informers that write to the program's own store have no shadow.
	Shadow Shadow
	// Server is the group of the informers of one API server; see weir.ServerGroup. The default for an
	// informer of a factory is the factory's group. The default for an informer from Adopt is one
	// group for all of these informers. Any other informer has a separate group by default.
	Server *weir.ServerGroup

	// clientCopied is true if a factory has copied its client, so that requests pass the transport of
	// this package.
	clientCopied bool
}

func (o *Options) reflectorConfig() reflector.Config {
	cfg := reflector.ConfigOf(o.ListWatch)
	cfg.Server = (*reflector.Server)(o.Server)
	sel := shard.Shard(o.Shard).Selector()
	cfg.SetShard(sel.String(), sel.Keep())
	if cfg.Mode == reflector.Auto {
		cfg.Mode = reflector.List
	}
	return cfg
}

// storeConfig returns the configuration of a store. values decodes the objects of the store.
func (o *Options) storeConfig(values *codec.Codec) store.Config {
	cfg := store.Config{Decode: values.Decode, DecodeCopy: values.Decode, DecodedBudget: o.DecodedBudget, DecodedIdle: cmp.Or(o.DecodedIdle, decodedIdle), LogBytes: o.LogBytes}
	if o.ShareDecoded {
		cfg.Decode = values.DecodeShared
	}
	return cfg
}

// Option configures a factory.
type Option func(*settings)

// settings contains the values that a factory's options set.
type settings struct {
	namespace    string
	tweak        func(*metav1.ListOptions)
	transform    cache.TransformFunc
	customResync map[metav1.Object]time.Duration // the key is any object of the type
	name         InformerName                    // nil without WithInformerName
	withName     nameFactory                     // sets name; nil without WithInformerName
	informer     Options
	shard        *weir.Shard // if not nil, replaces informer.Shard
}

func settingsOf(opts []Option) settings {
	layoutKnown() // logs immediately if client-go's informers cannot be replaced
	s := settings{customResync: map[metav1.Object]time.Duration{}}
	for _, opt := range opts {
		opt(&s)
	}
	if s.shard != nil {
		s.informer.Shard = *s.shard
	}
	// All informers of a factory use one server.
	s.informer.Server = cmp.Or(s.informer.Server, &weir.ServerGroup{})
	return s
}

// adopt returns an informer of this package that replaces inf, or inf itself if the function adopt
// cannot replace it. It passes description to that function, and then sets the factory's transform.
func (s *settings) adopt(inf cache.SharedIndexInformer, description string) cache.SharedIndexInformer {
	inf = adopt(inf, description, s.informer)
	s.setTransform(inf)
	return inf
}

func (s *settings) setTransform(inf cache.SharedIndexInformer) {
	if s.transform != nil {
		_ = inf.SetTransform(s.transform) // returns an error only if the informer has started
	}
}

// WithNamespace restricts the factory's informers to one namespace.
func WithNamespace(namespace string) Option { return func(s *settings) { s.namespace = namespace } }

// WithTweakListOptions sets a function that changes the options of each LIST and WATCH. It can set
// a selector, for example.
func WithTweakListOptions(tweak func(*metav1.ListOptions)) Option {
	return func(s *settings) { s.tweak = tweak }
}

// WithTransform sets a transform on all the factory's informers. The transform runs once for each
// version of an object. If it returns an error, a list fails and is sent again, and a watch leaves
// out the version; see also ErrExcluded. It may change the object, rename it, or return an object
// of another type that has metadata.
func WithTransform(transform cache.TransformFunc) Option {
	return func(s *settings) { s.transform = transform }
}

// WithCustomResyncConfig sets the resync periods of the informers of some types. The keys are
// objects of these types. It has no effect on the dynamic and the metadata factory.
func WithCustomResyncConfig(resync map[metav1.Object]time.Duration) Option {
	return func(s *settings) { maps.Copy(s.customResync, resync) }
}

// WithInformerName sets the name under which the informers publish client-go's metric
// informer_store_resource_version, with client-go 0.37 and later. They do not publish client-go's
// FIFO metrics, because they have no FIFO. Shutdown releases the name. The option has no effect on
// the dynamic and the metadata factory. N is *cache.InformerName, which client-go has since v0.36.
func WithInformerName[N InformerName](name N) Option {
	return func(s *settings) { s.name, s.withName = name, withName(name) }
}

// WithOptions sets the options of the factory's informers.
func WithOptions(opts Options) Option { return func(s *settings) { s.informer = opts } }

// WithShard restricts the factory's informers to one shard. It takes precedence over Options.Shard.
// Listers and indexes contain only the shard's objects. So use a shard for the objects that a
// controller reconciles, and a factory without a shard for the objects that it looks up.
//
// Informers that remain client-go's because of Options.Off or an UnknownFieldError have the shard
// too. Those of API groups that client-go's factory got after v0.34 do not. Any other informer that
// cannot have it stores the objects of all shards; Err and the log report that.
func WithShard(s weir.Shard) Option { return func(to *settings) { to.shard = &s } }
