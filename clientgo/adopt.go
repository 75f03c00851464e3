package clientgo

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
	core "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/reflector"
)

// ErrLayout: the client-go that is linked in builds its informers otherwise than this package knows, so that the factories hand out
// client-go's own. It is logged when the first factory is made, and is what Err then says of these informers, beside ErrNotOurs.
var ErrLayout = errors.New("clientgo: this version of client-go lays out its informers in another way")

// parts are what a client-go informer was made of.
type informerParts struct {
	lw          cache.ListerWatcher
	example     runtime.Object
	description string
	resync      time.Duration
	transform   cache.TransformFunc
	onError     cache.WatchErrorHandlerWithContext
	indexers    cache.Indexers
}

// takeApart gives the parts of an informer that client-go has built and nobody has used yet. It reads its private
// fields: generated code makes a ListerWatcher, an example and indexers and hands them to nobody but client-go's own
// constructor, and a constructor of somebody else's (InformerFor) may have set a transform too. Nothing less would carry over
// all that they mean. It reports false for an informer that is of another type, has started, or has handlers.
func partsOf(inf cache.SharedIndexInformer) (informerParts, bool) {
	v := informerStruct(inf)
	var p informerParts
	var started, stopped bool
	ok := v.Kind() == reflect.Struct &&
		readField(v, "objectDescription", &p.description) &&
		readField(v, "listerWatcher", &p.lw) && readField(v, "objectType", &p.example) &&
		readField(v, "defaultEventHandlerResyncPeriod", &p.resync) && readField(v, "transform", &p.transform) &&
		readField(v, "watchErrorHandler", &p.onError) && readField(v, "started", &started) && readField(v, "stopped", &stopped)
	if !ok || started || stopped || countHandlers(v) != 0 {
		return informerParts{}, false
	}
	p.indexers = inf.GetIndexer().GetIndexers()
	return p, true
}

// structOf is the struct of client-go's informer. client-go's typed informer does nothing but to wrap another; whatever else does has a
// meaning of its own, and is none.
func informerStruct(inf any) reflect.Value {
	v := reflect.ValueOf(inf)
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
		if v.Kind() == reflect.Struct && v.NumField() == 1 && strings.HasPrefix(v.Type().Name(), "typedSharedIndexInformer[") {
			v = v.Field(0)
		}
	}
	if v.Kind() == reflect.Struct && v.Type().PkgPath() != reflect.TypeFor[cache.ListWatch]().PkgPath() {
		return reflect.Value{}
	}
	return v
}

// knownFields are the fields of client-go's informer: those that are read here, and those that mean nothing to ours, which publishes no
// metrics of a FIFO, has the keys that client-go's constructor sets, and a store, a clock and a detector of its own.
var knownFields = []string{
	"indexer", "controller", "synced", "processor", "cacheMutationDetector", "listerWatcher", "objectType", "objectDescription",
	"resyncCheckPeriod", "defaultEventHandlerResyncPeriod", "clock", "started", "stopped", "startedLock", "blockDeltas",
	"watchErrorHandler", "transform", "identifier", "informerMetricsProvider", "keyFunc",
}

// unknownFields are the fields of an informer that a later client-go has added: what they mean is lost when it is adopted.
func unknownFields(inf any) (unknown []string) {
	t := reflect.TypeOf(inf)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		if name := t.Field(i).Name; !slices.Contains(knownFields, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// field reads a private field, if it is there and of the type that is known.
func readField[T any](v reflect.Value, name string, to *T) bool {
	f := v.FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() || !f.CanAddr() {
		return false
	}
	*to = *(*T)(unsafe.Pointer(f.UnsafeAddr()))
	return true
}

// handlersOf counts the handlers of a client-go informer; -1 where they cannot be counted.
func countHandlers(v reflect.Value) int {
	processor := v.FieldByName("processor")
	if !processor.IsValid() || processor.Kind() != reflect.Pointer || processor.IsNil() {
		return -1
	}
	listeners := processor.Elem().FieldByName("listeners")
	if !listeners.IsValid() || listeners.Kind() != reflect.Map {
		return -1
	}
	return listeners.Len()
}

// Adopt returns an informer of this package in place of one that client-go has built, which must have no handlers yet and must not have
// started. It returns any other informer as it is; Err tells whether one is of this package. Adopt is for code that builds informers in
// a place of its own, such as the InformerFor of a factory that informer-gen has generated.
//
// When one of the informers that Adopt took over finds its server restored, all of them list again: which of them are of one server is
// not known. A list of what has not changed tells handlers nothing.
func Adopt(inf cache.SharedIndexInformer) cache.SharedIndexInformer {
	return adopt(inf, Options{Reflector: reflector.Config{Server: &adoptedServer}})
}

// adoptedServer is what the informers that Adopt took over know together. It holds on to none that does not watch.
var adoptedServer reflector.Server

// adopt builds an informer of this package from one that client-go has built. One that cannot be taken apart is given
// back as it is: it works, as client-go's do.
func adopt(inf cache.SharedIndexInformer, opts Options) cache.SharedIndexInformer {
	p, ok := partsOf(inf)
	if !ok {
		return inf
	}
	ours := newInformer(p.lw, p.example, p.resync, p.indexers, opts)
	if p.description != "" {
		ours.name = p.description
	}
	ours.sink.transform = p.transform
	if p.onError != nil {
		ours.onError = p.onError
	}
	return ours
}

// layoutKnown reports whether client-go's informers can be taken over, and logs what cannot be: once, since there is one client-go.
var layoutKnown = sync.OnceValue(func() bool {
	logger := klog.Background()
	if _, ok := partsOf(core.NewConfigMapInformer(nil, "", 0, nil)); !ok { // as generated code builds it: from 0.37 on in a typed one
		logger.Error(ErrLayout, "The informers of factories are client-go's")
		return false
	}
	if unknown := unknownFields(cache.NewSharedIndexInformer(&cache.ListWatch{}, nil, 0, cache.Indexers{})); len(unknown) > 0 {
		logger.Info("Warning: this version of client-go builds informers of parts that are not known to weir; what they mean is lost", "fields", unknown)
	}
	return true
})
