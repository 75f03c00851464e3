package weir

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options configure an Informer. The zero value works: every object of T's resource, with all
// fields and without resyncs.
type Options struct {
	// Name names the informer in errors, in metrics and on the debug page. The default is the
	// resource's name, or the kind's if discovery finds the resource.
	Name string

	// Resource is the resource to list and watch. Unstructured and metadata-only informers require it.
	// For other types the default is the resource of the kind that Scheme has for T. The informer
	// looks up kinds that are not built in by discovery when it runs.
	Resource schema.GroupVersionResource
	// Scheme knows the kind of T. It may be nil if T is one of package k8s.io/api's types, or if
	// Resource is set.
	Scheme *runtime.Scheme

	// Namespaces restricts the informer to these. The default is all namespaces.
	Namespaces []string
	// Selectors restricts the informer to objects that match at least one of up to 32 selectors. The
	// default is all objects. Each pair of a namespace and a selector has a separate LIST and WATCH.
	Selectors []Selector
	// Shard restricts the informer to one of Count equal parts of the objects, by a hash of their uid.
	// N replicas of a program store 1/N each. From a server that supports shard selectors they also
	// receive 1/N each. Other servers send all objects; the informer then drops those of other shards
	// undecoded, and Status.OutOfShard counts them. The zero value selects all objects. See Shard for
	// how to change Count.
	Shard Shard

	// DropFields names fields, such as "metadata.managedFields", that the informer removes from each
	// object before it stores it. It does not decode the object for that. The default is none.
	DropFields []string
	// Indexes are the initial indexes. AddIndex adds more.
	Indexes map[string]Index

	// ShareDecoded lets decoded objects share equal slices, maps and pointers outside their metadata.
	// Decoding then uses less CPU and less memory. No handler, reader or index function may then
	// change an object: the change would appear in other objects too, even in some that are decoded
	// later. Item.Copy still returns an object that shares nothing. Without ShareDecoded two objects
	// or versions share nothing mutable, as in client-go. It has no effect together with PrivateCopies
	// or DetectMutation.
	ShareDecoded bool
	// PrivateCopies gives every reader and handler its own object, which it may change: Object, Old,
	// Get, All and By decode the object each time. Index functions still receive shared objects.
	PrivateCopies bool
	// DetectMutation panics with the key of a shared object that was changed, like client-go's
	// mutation detector. It costs a copy of each returned object, for two minutes. The environment
	// variable KUBE_CACHE_MUTATION_DETECTOR=true sets it for all informers.
	DetectMutation bool
	// DecodedBudget limits the memory of decoded objects, in bytes (estimated). The default is no
	// limit, because objects that exceed the budget would be decoded again on each full read.
	DecodedBudget int64
	// DecodedIdle is how long an object stays decoded after its last read. The default is one minute.
	DecodedIdle time.Duration
	// LogBytes limits the change log, in bytes. A handler that lags behind the log receives the newest
	// state of each changed key. The default is 8 MiB.
	LogBytes int64

	// ListWatch configures how the informer lists and watches. The zero value chooses by the server's
	// version.
	ListWatch ListWatch
	// Server is shared by the informers of one API server. If it is nil, an informer of a factory uses
	// the factory's, and any other informer has its own.
	Server *ServerGroup
	// OnStatus, if set, receives each change of the status of one of the informer's reflectors. It
	// must not block.
	OnStatus func(Status)
	// OnPanic, if set, receives the panics of handlers. The handler continues with its next event.
	// OnPanic must not block. If it is nil, the informer logs the panic.
	OnPanic func(*PanicError)
	// StopTimeout is how long Run waits, after its context has ended, for active handler calls. The
	// default is 10 s.
	StopTimeout time.Duration
}

// Selector selects objects. The zero value selects all.
type Selector struct {
	Label string // a label selector, such as "app=web,tier!=cache"
	Field string // a field selector, such as "spec.nodeName=node-7"
}

// HandlerOptions configure a handler. The zero value works: every change, no resync.
type HandlerOptions[T Object] struct {
	// Name names the handler in errors, statistics and metrics. The default is the informer's name,
	// "handler" and a number.
	Name string
	// Resync is the period in which the handler receives every object again. The informer spreads them
	// evenly: no burst and no request. The default is never.
	Resync time.Duration
	// Filter, if set, selects objects. The handler receives Added when an object starts to pass, and
	// Deleted when it no longer passes.
	Filter func(Item[T]) bool
}
