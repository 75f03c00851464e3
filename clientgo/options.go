package clientgo

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/shard"
)

// Options tune one informer. The zero value is what NewSharedIndexInformer uses.
type Options struct {
	// PinDecoded holds every object decoded for as long as it is held at all, as client-go does, instead of its packed
	// bytes: client-go's memory, and no first read ever decodes.
	PinDecoded bool
	// ShareDecoded lets decoded objects have in common what is the same in several: slices, maps and pointers outside their
	// metadata, and of the versions of one object all that has not changed. Decoding then takes about two thirds of the CPU
	// and a third of the memory. The contract: nobody changes anything in an object that he was handed, no handler, no
	// reader, no index function. Whoever does changes other objects, those that are not decoded yet among them.
	// Without it nothing that can be changed is shared between two objects or two versions, as in client-go. It means
	// nothing together with PinDecoded, PrivateCopies and DetectMutation.
	ShareDecoded bool
	// PrivateCopies hands every reader and every handler a deep copy of its own, which it may change.
	PrivateCopies bool
	// DetectMutation panics with the key of an object that somebody has changed though it is shared: client-go's
	// mutation detector. It costs a copy of each object that is looked at. The environment variable
	// KUBE_CACHE_MUTATION_DETECTOR=true sets it everywhere, as it does with client-go.
	DetectMutation bool
	// NoCapture takes the objects from what List and Watch return even where the transport is wrapped. It is for a
	// ListerWatcher that changes what its client answered: filters it, fills in fields.
	NoCapture bool
	// Scheme tells the kind of the example where client-go's own scheme does not know its type. nil: a type that is unknown
	// there has the kind that it is called like. Answers are captured only where they are of the example's kind.
	Scheme *runtime.Scheme
	// ResyncOnRelist hands every handler all objects once more whenever the informer has had to list again, as client-go
	// does. Without it a handler is told of what a relist found changed, and of nothing else.
	ResyncOnRelist bool
	// DecodedBudget bounds the bytes (estimated) of objects that are kept decoded because they are read often, and, on its
	// own, of those that are because they have just changed, and of those that handlers are being handed. 0: no
	// bound for the first, 32 MiB for the second, 8 MiB for the third. Of what has just changed it uses an eighth where more objects change in turn
	// than it has room for.
	DecodedBudget int64
	// DecodedIdle is how long an object stays decoded after its last read; one that is read a second time within it stays
	// so. 0: 15 seconds. What is listed as a whole stays decoded for a minute after the last List.
	DecodedIdle time.Duration
	// LogBytes bounds the memory that a handler's lag may hold before it is caught up by key. 0: 8 MiB.
	LogBytes int64
	// Shard restricts the informer to one of Count equal parts of the objects, by a hash of their uid: N replicas of a program hold and, from
	// a server that selects by shard, receive 1/N each. The zero value is all objects. What comes of other shards is dropped without being
	// decoded. A shard that Validate refuses panics. Objects of a fake clientset have no uid, and so are all in one shard.
	Shard Shard
	// Reflector tunes listing and watching. Mode Auto is List: a ListerWatcher cannot tell which server it talks to.
	// Without a Server, an informer of a factory has the factory's: it lists again when another one finds that the server was restored.
	Reflector reflector.Config
}

// Shard is one of Count equal parts of the objects of a resource: number Index, from 0. Informers of the same Count with every Index below it
// hold each object exactly once, together. To change Count without a gap, start informers of the new one, wait until they are in sync,
// and stop the old ones then.
type Shard = shard.Shard

// Option is an option of the factories.
type Option func(*settings)

// settings are what a factory's options say.
type settings struct {
	namespace    string
	tweak        func(*metav1.ListOptions)
	transform    cache.TransformFunc
	customResync map[metav1.Object]time.Duration // by an object of the type
	name         *cache.InformerName
	informer     Options
	shard        *Shard // in place of informer's; nil: that one counts
	canAdopt     bool   // client-go's informers can be taken over
}

func settingsOf(opts []Option) settings {
	s := settings{customResync: map[metav1.Object]time.Duration{}, canAdopt: layoutKnown()}
	for _, opt := range opts {
		opt(&s)
	}
	if s.shard != nil {
		s.informer.Shard = *s.shard
	}
	if s.informer.Reflector.Server == nil {
		s.informer.Reflector.Server = &reflector.Server{} // the informers of a factory have one server
	}
	return s
}

// adopt returns an informer of this package in place of client-go's, if that can be taken over.
func (s *settings) adopt(inf cache.SharedIndexInformer) cache.SharedIndexInformer {
	if !s.canAdopt {
		return inf
	}
	return adopt(inf, s.informer)
}

// WithNamespace limits the factory's informers to one namespace.
func WithNamespace(namespace string) Option { return func(s *settings) { s.namespace = namespace } }

// WithTweakListOptions has the options of each LIST and WATCH changed: a label or field selector, mostly.
func WithTweakListOptions(tweak func(*metav1.ListOptions)) Option {
	return func(s *settings) { s.tweak = tweak }
}

// WithTransform sets a transform on all the factory's informers: see SetTransform in docs/differences.md.
func WithTransform(transform cache.TransformFunc) Option {
	return func(s *settings) { s.transform = transform }
}

// WithCustomResyncConfig sets other resync periods for the types of some objects. It means nothing to the dynamic and
// the metadata factory.
func WithCustomResyncConfig(resync map[metav1.Object]time.Duration) Option {
	return func(s *settings) {
		maps.Copy(s.customResync, resync)
	}
}

// WithInformerName names the factory's informers; Shutdown releases the name.
func WithInformerName(name *cache.InformerName) Option { return func(s *settings) { s.name = name } }

// WithOptions sets the options of the factory's informers.
func WithOptions(opts Options) Option { return func(s *settings) { s.informer = opts } }

// WithShard restricts the factory's informers to one shard: see Options.Shard, over which it wins. Informers that are client-go's, because
// this package cannot take them over, have all objects.
func WithShard(s Shard) Option { return func(to *settings) { to.shard = &s } }
