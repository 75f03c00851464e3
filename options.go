package weir

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure an Informer. The zero value works for built-in types: the informer then stores
// every object of T's resource, with all fields.
type Options struct {
	// Name names the informer in errors, in metrics and on the debug page. The default is the
	// resource's name, or the kind's name if discovery finds the resource.
	Name string

	// Resource is the resource to list and watch. Unstructured and metadata-only informers require it.
	// For other types the default is the resource of T's kind, which Scheme defines. If the kind is
	// not built in, Run finds its resource by discovery.
	Resource schema.GroupVersionResource
	// Scheme defines the kind of T. It may be nil if T is a type of module k8s.io/api, or if Resource
	// is set.
	Scheme *runtime.Scheme

	// Namespaces restricts the informer to these namespaces. The default is all namespaces.
	Namespaces []string
	// Selectors restricts the informer to objects that match at least one of up to 32 selectors. The
	// default is all objects. The informer sends a separate LIST and WATCH for each pair of a
	// namespace and a selector.
	Selectors []Selector
	// Shard restricts the informer to one of Count equal parts of the objects, by a hash of their uid.
	// N replicas of a program then store 1/N of the objects each. A server that supports shard
	// selectors also sends only 1/N of the objects to each replica. Other servers send all objects;
	// the informer drops the objects of other shards without decoding them, and counts them in
	// Status.OutOfShard. The zero value selects all objects. See Shard for how to change Count.
	Shard Shard

	// DropFields names fields, such as "metadata.managedFields", that the informer removes from each
	// object before it stores the object. The informer does not decode the object to remove them. The
	// default is none.
	DropFields []string
	// Indexes are the initial indexes, by name. AddIndex adds more.
	Indexes map[string]Index

	// ShareDecoded makes decoded objects share equal slices, maps and pointers outside their metadata.
	// This reduces the CPU and memory that decoding costs. Handlers, readers and index functions must
	// then not change any object: the change would appear in other objects too, even in objects that
	// are decoded later. Item.Copy still returns an object that shares nothing. Without ShareDecoded,
	// two objects, or two versions of one object, share nothing mutable, as in client-go. ShareDecoded
	// has no effect if PrivateCopies or DetectMutation is set.
	ShareDecoded bool
	// PrivateCopies makes the informer return a private copy to every reader and handler, which may
	// change it. Item.Object, Event.Old, Get, All, In and By then decode the object at each call.
	// Index functions still receive shared objects.
	PrivateCopies bool
	// DetectMutation makes the informer panic with the key of a shared object that a caller changed,
	// like client-go's mutation detector. For this, the informer keeps each returned object and a copy
	// of it for two minutes. The environment variable KUBE_CACHE_MUTATION_DETECTOR=true sets the
	// option for all informers.
	DetectMutation bool
	// DecodedBudget limits the estimated memory of decoded objects that the informer keeps, in bytes.
	// The default is no limit, because with a limit each read of all objects decodes the objects
	// beyond the budget again.
	DecodedBudget int64
	// DecodedIdle is how long an object stays decoded after its last read, if it was read twice within
	// that time. The default is one minute.
	DecodedIdle time.Duration
	// LogBytes limits the size of the change log, in bytes. A handler that lags so far that the log no
	// longer has its next change receives only the newest state of each changed object. LogBytes also
	// limits the packed changes that relists collect to apply them in one step; see
	// Status.RelistsInParts. The default is 8 MiB.
	LogBytes int64

	// ListWatch configures how the informer lists and watches. With the zero value the informer
	// chooses by the server's version.
	ListWatch ListWatch
	// Server is the group of the informers of one API server; see ServerGroup. The default for an
	// informer of a factory is the factory's group. Any other informer has a separate group by
	// default.
	Server *ServerGroup
	// OnStatus, if set, receives the new status of one of the informer's reflectors: when the
	// reflector's phase, mode or error changes, at each retry and after each relist. It must not
	// block.
	OnStatus func(Status)
	// OnPanic, if set, receives each panic of a handler. The handler continues with its next event.
	// OnPanic must not block. By default the informer logs the panic.
	OnPanic func(*PanicError)
	// StopTimeout is how long Run waits for active handler calls after its context has ended. The
	// default is 10 s.
	StopTimeout time.Duration
}

// Selector selects objects that match both a label and a field selector. The zero value selects all
// objects.
type Selector struct {
	Label string // a label selector, such as "app=web,tier!=cache"
	Field string // a field selector, such as "spec.nodeName=node-7"
}

// HandlerOptions configure a handler. With the zero value the handler receives every change and no
// resyncs.
type HandlerOptions[T Object] struct {
	// Name names the handler in errors, statistics and metrics. The default is the informer's name,
	// the word "handler" and a number.
	Name string
	// Resync is the period in which the handler receives every object once more. The informer spreads
	// these events evenly over the period and sends no request for them. The default is no resync.
	Resync time.Duration
	// Filter, if set, selects the objects that the handler receives. The handler receives Added when
	// an object starts to match, and Deleted when the object no longer matches.
	Filter func(Item[T]) bool
}
