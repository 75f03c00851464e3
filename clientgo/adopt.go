package clientgo

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	core "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/registry"
)

// ErrLayout is returned by Err if this package cannot read the private fields of client-go's
// informers: the linked client-go has other fields than this package expects, or the program was
// built with the tag weir_safe. The returned error also wraps ErrForeignInformer. In this case
// factories and Adopt return client-go's own informers. The first factory or the first call of
// Adopt logs the error.
var ErrLayout = errors.New("clientgo: the fields of client-go's informers cannot be read")

// informerFields contains the arguments from which a client-go informer was built.
type informerFields struct {
	lw          cache.ListerWatcher
	example     runtime.Object
	description string
	resync      time.Duration
	transform   cache.TransformFunc
	onError     cache.WatchErrorHandlerWithContext
	indexers    cache.Indexers
	// published is the store of the client-go informer if the informer has a reserved name, otherwise
	// nil. client-go publishes the resourceVersion of such a store as a metric; see sink.published.
	published bookmarker
}

// fieldsOf returns the fields of an unused client-go informer. It reads private fields, because
// generated code passes its ListerWatcher, example and indexers only to client-go's constructor. A
// constructor that is passed to InformerFor may also have set a transform. fieldsOf returns false
// for an informer that is not client-go's, for an informer that has started, and for an informer
// with handlers.
func fieldsOf(inf cache.SharedIndexInformer) (informerFields, bool) {
	v := informerStruct(inf)
	var p informerFields
	var started, stopped bool
	ok := v.Kind() == reflect.Struct &&
		readField(v, "objectDescription", &p.description) &&
		readField(v, "listerWatcher", &p.lw) && readField(v, "objectType", &p.example) &&
		readField(v, "defaultEventHandlerResyncPeriod", &p.resync) && readField(v, "transform", &p.transform) &&
		readField(v, "watchErrorHandler", &p.onError) && readField(v, "started", &started) && readField(v, "stopped", &stopped)
	if !ok || started || stopped || countHandlers(v) != 0 {
		return informerFields{}, false
	}
	p.indexers = inf.GetIndexer().GetIndexers()
	if id, ok := private.Field(v, "identifier"); ok { // since v0.36
		if named, ok := id.Interface().(interface{ Reserved() bool }); ok && named.Reserved() {
			p.published, _ = inf.GetIndexer().(bookmarker)
		}
	}
	return p, true
}

// informerStruct returns the struct of client-go's informer, also of its typed informer, which only
// adds types. For any other wrapper it returns an invalid value, because the wrapper may behave
// differently from the informer inside.
func informerStruct(inf any) reflect.Value {
	v := reflect.ValueOf(inf)
	for {
		switch {
		case v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer:
			v = v.Elem()
		case v.Kind() != reflect.Struct || v.Type().PkgPath() != reflect.TypeFor[cache.ListWatch]().PkgPath():
			return reflect.Value{}
		case !strings.HasPrefix(v.Type().Name(), "typedSharedIndexInformer["):
			return v
		default:
			v = v.Field(0)
		}
	}
}

// knownFields lists the fields of client-go's informer that fieldsOf reads or that Weir's informer
// does not need. Weir's informer has its own store, clock and mutation detector, and no FIFO with
// metrics. It always uses the key function that client-go's constructor sets.
var knownFields = []string{
	"indexer", "controller", "synced", "processor", "cacheMutationDetector", "listerWatcher", "objectType", "objectDescription",
	"resyncCheckPeriod", "defaultEventHandlerResyncPeriod", "clock", "started", "stopped", "startedLock", "blockDeltas",
	"watchErrorHandler", "transform", "identifier", "informerMetricsProvider", "keyFunc", "shardSelector",
}

// unknownField returns the name of a field of inf that is not in knownFields, because a later
// client-go has added it, and whose value differs from that of an informer that client-go builds
// from the same arguments. It returns "" if there is none.
func unknownField(inf, same reflect.Value) string {
	for i := range inf.NumField() {
		name := inf.Type().Field(i).Name
		if !slices.Contains(knownFields, name) && !alike(inf.Field(i), same.Field(i), maxCompared) {
			return name
		}
	}
	return ""
}

// maxCompared is the number of pointers that alike follows.
const maxCompared = 4

// alike reports whether two values of one type may have been built from the same arguments. It
// compares functions by their code, and of channels and maps only whether they are nil.
func alike(a, b reflect.Value, depth int) bool {
	switch a.Kind() {
	case reflect.Func:
		return a.Pointer() == b.Pointer()
	case reflect.Chan, reflect.Map, reflect.UnsafePointer:
		return a.IsNil() == b.IsNil()
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() || depth == 0 {
			return a.IsNil() == b.IsNil()
		}
		return a.Elem().Type() == b.Elem().Type() && alike(a.Elem(), b.Elem(), depth-1)
	case reflect.Slice, reflect.Array:
		for i := range min(a.Len(), b.Len()) {
			if !alike(a.Index(i), b.Index(i), depth) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Struct:
		for i := range a.NumField() {
			if !alike(a.Field(i), b.Field(i), depth) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// field returns a pointer to a private field of v, or nil if v has no field of that name and type.
func field[T any](v reflect.Value, name string) *T {
	f, ok := private.Field(v, name)
	if !ok || f.Type() != reflect.TypeFor[T]() {
		return nil
	}
	return f.Addr().Interface().(*T)
}

func readField[T any](v reflect.Value, name string, to *T) bool {
	f := field[T](v, name)
	if f != nil {
		*to = *f
	}
	return f != nil
}

// countHandlers returns the number of handlers of a client-go informer, or -1 if its fields cannot
// be read.
func countHandlers(v reflect.Value) int {
	var listeners reflect.Value
	processor, ok := private.Field(v, "processor")
	if ok && !processor.IsZero() {
		listeners = reflect.Indirect(processor).FieldByName("listeners")
	}
	if listeners.Kind() != reflect.Map {
		return -1
	}
	return listeners.Len()
}

// Adopt returns an informer of this package that replaces inf, which client-go has built. Adopt
// returns inf itself if inf has started or has handlers, if client-go has not built inf, or if this
// package cannot read inf's fields (ErrLayout). To detect that the result is not an informer of
// this package, call Err with the result: Err returns ErrForeignInformer for an informer that is
// not of this package. Adopt is for code that builds its own informers, such as the InformerFor of
// a factory that informer-gen has generated.
//
// All informers that Adopt returns share one weir.ServerGroup, because Adopt cannot detect which
// informers have the same server. The informers of a group share the limit of concurrent lists.
// When one of them detects that its server was restored from a backup, all of them list again; a
// list of unchanged objects calls no handler.
func Adopt(inf cache.SharedIndexInformer) cache.SharedIndexInformer {
	return AdoptWithOptions(inf, Options{})
}

// AdoptWithOptions is Adopt with options. If a program has informers of several clusters, set
// Options.Server to a different weir.ServerGroup for each cluster.
func AdoptWithOptions(inf cache.SharedIndexInformer, opts Options) cache.SharedIndexInformer {
	if opts.Server == nil {
		opts.Server = &adoptedServer
	}
	return adopt(inf, "", opts)
}

// adoptedServer is the default Options.Server of the informers that Adopt returns. It exists until
// the program ends. It does not keep stopped informers in memory.
var adoptedServer weir.ServerGroup

// adopt returns an informer of this package that replaces inf, or inf itself if it cannot read the
// fields of inf or must not replace it. In the second case inf stores only the objects of the
// options' shard; in the first case Err reports that it does not. The new informer has inf's
// description of its objects. If inf has none, the new informer gets the argument description.
func adopt(inf cache.SharedIndexInformer, description string, opts Options) cache.SharedIndexInformer {
	if ownerOf(inf) != nil {
		return inf
	}
	turnedOff := isOff(&opts)
	p, ok := fieldsOf(inf)
	if !ok || !turnedOff && !layoutKnown() {
		reportShard(inf, &opts)
		return inf
	}
	unknown := ""
	if !turnedOff {
		unknown = unknownField(informerStruct(inf), informerStruct(p.original(&Options{})))
	}
	if unknown != "" {
		registry.AddUnadopted(unknown)
		addUnadopted(inf, &UnknownFieldError{Field: unknown, Informer: cmp.Or(p.description, description, fmt.Sprintf("%T", p.example))})
		logIgnored(&opts)
	}
	if remains := turnedOff || unknown != ""; remains || opts.Shadow != NoShadow {
		*field[cache.ListerWatcher](informerStruct(inf), "listerWatcher") = filterShard(p.lw, &opts)
		if remains {
			return inf
		}
		if indexer := field[cache.Indexer](informerStruct(inf), "indexer"); indexer != nil && opts.Shadow == ShadowClientGo {
			*indexer = cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
		}
		return newShadowed(inf, p, description, opts)
	}
	return p.replacement(inf, description, opts)
}

// reportShard logs that client-go's informer stores the objects of all shards, and makes Err report
// it, if the options restrict the informer to a shard.
func reportShard(inf cache.SharedIndexInformer, o *Options) {
	if inf != nil && !o.Shard.All() {
		addUnadopted(inf, fmt.Errorf("%w, and stores the objects of all shards: %T", ErrForeignInformer, inf))
	}
}

// replacement returns an informer of this package for p, and for the shard selector of inf unless
// inf is nil. If p has no description of the objects, the informer gets the argument description.
func (p *informerFields) replacement(inf cache.SharedIndexInformer, description string, opts Options) *informer {
	ours := newInformer(p.lw, p.example, p.resync, p.indexers, cmp.Or(p.description, description), opts)
	ours.listWatch.matcher.describe(p.description)
	ours.sink.transform, ours.sink.published = p.transform, p.published
	if p.onError != nil {
		ours.onError = p.onError
	}
	if inf != nil {
		ours.upstreamInformer.SharedIndexInformer = inf
	}
	return ours
}

// layoutKnown reports whether this package can read the fields of client-go's informers. If it
// cannot, the first call logs the reason.
var layoutKnown = sync.OnceValue(func() bool {
	// The test informer is built with the constructor that generated code uses. Since client-go 0.37
	// this constructor returns a typed informer.
	if _, ok := fieldsOf(core.NewConfigMapInformer(nil, "", 0, nil)); !ok {
		klog.Background().Error(ErrLayout, "Cannot adopt informers of client-go, they remain client-go's")
		return false
	}
	return true
})
