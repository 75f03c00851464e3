package weir

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
)

// Informer stores the objects of one resource and calls handlers when they change. Options can
// restrict it to namespaces, selectors or a shard. It is a typed version of client-go's
// SharedInformer. All methods are safe for concurrent use.
type Informer[T Object] struct{ informer[T] }

// informer implements the methods that Informer and SharedInformer have in common.
type informer[T Object] struct {
	name       string
	objectType *objectType
	engine     *engine.Engine
	store      *store.Store
	reader     *reader
	stats      *source.Stats
	panics     func(*PanicError)
}

// NewInformer returns an informer for objects on cfg's server. It copies cfg and sends no request;
// Run sends them. It returns ErrInvalidOptions for a nil cfg or invalid options, or an error about
// the content of cfg.
func NewInformer[T Object](cfg *rest.Config, opts Options) (*Informer[T], error) {
	if cfg == nil {
		return nil, errNoConfig
	}
	typ, err := objectTypeOf[T](opts)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(opts.Name, typ.name())
	inf := &Informer[T]{informer[T]{name: name, objectType: typ, reader: newReader(opts), stats: &source.Stats{}, panics: onPanic(opts)}}
	if err := inf.build(cfg, opts); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return inf, nil
}

// build creates the engine, with a reflector for each pair of a namespace and a selector.
func (i *informer[T]) build(cfg *rest.Config, opts Options) error {
	scopes, err := scopesOf(opts)
	if err != nil {
		return err
	}
	tuning, err := i.objectType.reflectorConfig(opts)
	if err != nil {
		return err
	}
	tuning.Server = (*reflector.Server)(opts.Server)
	i.engine = engine.New(engine.Config{
		Name: i.name,
		Store: store.Config{
			Encoding:      i.objectType.encoding,
			Decode:        i.objectType.decoder(opts),
			DecodeCopy:    i.objectType.codec.Decode,
			DecodedBudget: opts.DecodedBudget,
			DecodedIdle:   opts.DecodedIdle,
			LogBytes:      opts.LogBytes,
		},
		Reflector:   tuning,
		Requests:    i.stats,
		OnStatus:    onStatus(opts.OnStatus),
		Background:  i.reader.detectMutation,
		StopTimeout: opts.StopTimeout,
	})
	i.store = i.engine.Store()
	i.reader.store = i.store
	for _, name := range slices.Sorted(maps.Keys(opts.Indexes)) {
		if err := i.AddIndex(name, opts.Indexes[name]); err != nil {
			return err
		}
	}
	for _, sc := range scopes {
		src, err := i.objectType.source(cfg, sc, source.Options{Stats: i.stats})
		if err != nil {
			return err
		}
		i.engine.Reflect(src, store.Scope{Namespace: sc.namespace, Owner: sc.owner}, sc.selector.Label, sc.selector.Field)
	}
	return nil
}

// forUser returns a copy of i for another user of the same informer. The copy has the PrivateCopies
// and OnPanic of opts.
func (i informer[T]) forUser(opts Options) informer[T] {
	i.reader = &reader{store: i.store, private: opts.PrivateCopies, detector: i.reader.detector}
	i.panics = onPanic(opts)
	return i
}

func onPanic(opts Options) func(*PanicError) {
	if opts.OnPanic == nil {
		return logPanic
	}
	return opts.OnPanic
}

// Run lists, watches and calls handlers until ctx ends. It then returns nil, or ErrHandlerStuck if
// a handler call did not return within Options.StopTimeout. Errors of the server do not end it; Err
// returns them. An informer runs once: Run returns ErrRunning immediately while another Run is
// active, and ErrStopped after a Run has ended.
func (i *Informer[T]) Run(ctx context.Context) error { return i.engine.Run(ctx) }

// Name returns Options.Name, or the default name.
func (i *informer[T]) Name() string { return i.name }

// Encoding returns the encoding of the bytes that Item.AppendRaw returns.
func (i *informer[T]) Encoding() Encoding { return Encoding(i.objectType.encoding) }

// WaitForSync blocks until the informer stores every object of its first lists. If ctx ends first,
// the error wraps ErrNotSynced, the context's error and the informer's Err, if it has one. A caller
// can therefore test errors.Is(err, ErrForbidden), for example. If the informer stops first, the
// error wraps ErrNotSynced and ErrStopped.
func (i *informer[T]) WaitForSync(ctx context.Context) error { return i.engine.WaitForSync(ctx) }

// HasSynced reports whether the informer stores every object of its first lists. WaitForSync then
// returns nil immediately.
func (i *informer[T]) HasSynced() bool { return i.store.Synced() }

// WaitForResourceVersion blocks until the informer has received everything up to a resourceVersion.
// To read your own writes, pass the version that a write returned. With several namespaces or
// selectors it blocks until every reflector has reached the version. A reflector that receives no
// changes reaches the version with its next bookmark, which kube-apiserver sends about once a
// minute. After a restore of the server from a backup, a resourceVersion from before the restore
// may be higher than the server's. If the informer has detected the restore, WaitForResourceVersion
// blocks until the server has reached that resourceVersion again.
//
// If ctx ends first, the error wraps the context's error and the informer's Err, if it has one. If
// the informer stops first, the error wraps ErrStopped. For a resourceVersion that is not an
// integer, WaitForResourceVersion immediately returns an error that wraps
// ErrInvalidResourceVersion.
func (i *informer[T]) WaitForResourceVersion(ctx context.Context, resourceVersion string) error {
	return i.engine.WaitForResourceVersion(ctx, resourceVersion)
}

// Err returns why the informer is not current, or nil if it is current. The error wraps one of the
// errors from ErrForbidden to ErrEncoding for each reflector that is not current. The informer
// retries, and recovers when the cause no longer exists.
func (i *informer[T]) Err() error { return i.engine.Err() }

// WaitForErr blocks until Err is not nil, and returns Err. If ctx ends first, it returns the
// context's error. If the informer stops first, the error wraps ErrStopped. Call WaitForSync and
// WaitForErr concurrently to receive the first of two results: the informer has synced, or an error
// prevents the sync.
func (i *informer[T]) WaitForErr(ctx context.Context) (err error) {
	if wait := i.engine.WaitFor(ctx, func() bool { err = i.Err(); return err != nil }); wait != nil {
		return wait
	}
	return err
}

func onStatus(tell func(Status)) func(reflector.Status) {
	if tell == nil {
		return nil
	}
	return func(s reflector.Status) { tell(statusOf(s)) }
}
