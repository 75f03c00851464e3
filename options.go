package weir

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure an Informer. The zero value works: every object of T's resource, nothing
// dropped, nothing resynced.
type Options struct {
	// Name names the informer in errors, in metrics and on the debug page. Empty: the resource's
	// name, or the kind's where discovery finds the resource.
	Name string

	// Resource is what to list and watch. It is required for unstructured and metadata-only
	// informers. Empty for other types: found by the kind that Scheme knows T by; kinds that are
	// not built in are looked up by discovery when the informer runs.
	Resource schema.GroupVersionResource
	// Scheme tells the kind of T. nil: T is one of package k8s.io/api's types, or Resource is set.
	Scheme *runtime.Scheme

	// Namespaces restricts the informer to these. Empty: all namespaces.
	Namespaces []string
	// Selectors restricts the informer to objects that match at least one of them, at most 32.
	// Empty: all objects. Each pair of a namespace and a selector is a LIST and a WATCH of its own.
	Selectors []Selector
	// Shard restricts the informer to one of Count equal parts of the objects, by a hash of their uid:
	// N replicas of a program hold and, from a server that selects by shard, receive 1/N each. The
	// zero value is all objects. A server that cannot select sends all objects; those of other shards
	// are dropped undecoded, and Status.Unwanted counts them. See Shard for what a change of Count
	// takes.
	Shard Shard

	// Drop names fields that are removed from each object before it is stored, such as
	// "metadata.managedFields". They are dropped without decoding. Empty: nothing is dropped.
	Drop []string
	// Indexes are there from the start; more can be added later with AddIndex.
	Indexes map[string]Index

	// ShareDecoded lets decoded objects share what is equal in them: slices, maps and pointers
	// outside their metadata. Decoding then takes less CPU, and less memory. No handler, reader
	// or index function may then change an object that it got: a change shows in other objects too,
	// even in some that are decoded later. What Item.Copy returns shares nothing all the same.
	// Without ShareDecoded two objects or versions share nothing mutable, as in client-go. It has no
	// effect together with PrivateCopies or DetectMutation.
	ShareDecoded bool
	// PrivateCopies gives every reader and every handler an object of its own, which it may change:
	// what Object, Old, Get, All and By return is decoded anew each time. Index functions get shared
	// objects all the same.
	PrivateCopies bool
	// DetectMutation panics with the key of a shared object that was changed, like client-go's
	// mutation detector. It costs a copy of each object that is handed out, for two minutes. The
	// environment variable KUBE_CACHE_MUTATION_DETECTOR=true sets it for all informers.
	DetectMutation bool
	// DecodedBudget bounds the memory of the objects that are held decoded, in bytes (estimated).
	// 0: no bound, because a set larger than its budget would be decoded anew on each full read.
	DecodedBudget int64
	// DecodedIdle is how long an object that nobody reads stays decoded. 0: one minute.
	DecodedIdle time.Duration
	// LogBytes bounds the change log, in bytes. A handler that falls behind it is caught up by key.
	// 0: 8 MiB.
	LogBytes int64

	// ListWatch configures how the server is listed and watched. The zero value chooses by the
	// server's version.
	ListWatch ListWatch
	// Server is shared by informers of one API server. If it is nil, an informer of a factory shares
	// the factory's, and any other informer has its own.
	Server *Server
	// OnStatus, if set, is told each time the state of one of the informer's reflectors changes. It
	// must not block.
	OnStatus func(Status)
	// OnPanic, if set, is told when a handler panicked. The handler goes on with its next event. It
	// must not block. nil: the panic is logged.
	OnPanic func(*PanicError)
	// StopTimeout is how long Run waits, when its context has ended, for handlers that are in a
	// call. 0: 10 s.
	StopTimeout time.Duration
}

// Selector chooses objects. The zero value chooses all.
type Selector struct {
	Label string // a label selector, such as "app=web,tier!=cache"
	Field string // a field selector, such as "spec.nodeName=node-7"
}

// HandlerOptions say how a handler is served. The zero value works: every change, no resync.
type HandlerOptions[T Object] struct {
	// Name names the handler in errors, statistics and metrics. Empty: the informer's name,
	// "handler" and a number.
	Name string
	// Resync is the period over which the handler is handed every object once more, evenly spread:
	// no burst and no request. 0: off.
	Resync time.Duration
	// Filter, if set, refuses objects. An object that starts to pass is Added, one that stops to is
	// Deleted.
	Filter func(Item[T]) bool
}
