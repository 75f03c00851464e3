package weir

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/store"
)

// Informer holds the objects of one resource, or of some namespaces and selectors of it, and tells
// handlers what changes. It is client-go's SharedInformer, typed. All methods are safe for
// concurrent use.
type Informer[T Object] struct {
	name       string
	objectType *objectType
	engine     *engine.Engine
	store      *store.Store
	reader     *reader
	stats      *source.Stats
	panics     func(*PanicError)
}

// NewInformer makes an informer for the objects that cfg's server has. It copies cfg and makes no
// request: Run does. The error is ErrOptions, or says what is wrong with cfg.
func NewInformer[T Object](cfg *rest.Config, opts Options) (*Informer[T], error) {
	if cfg == nil {
		return nil, errNoConfig
	}
	typ, err := objectTypeOf[T](opts)
	if err != nil {
		return nil, err
	}
	name := opts.Name
	if name == "" {
		name = typ.name()
	}
	inf := &Informer[T]{name: name, objectType: typ, reader: newReader(opts), stats: &source.Stats{}, panics: onPanic(opts)}
	if err := inf.build(cfg, opts); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return inf, nil
}

// build makes the engine, with a reflector for each namespace and selector.
func (i *Informer[T]) build(cfg *rest.Config, opts Options) error {
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
		i.engine.Reflect(src, store.Scope{Namespace: sc.namespace, Claim: sc.claim}, sc.String())
	}
	return nil
}

// forUser returns the informer with the copies that its readers and handlers get, and with what is
// told of panics, as the options of another user say.
func (i *Informer[T]) forUser(opts Options) *Informer[T] {
	user := *i
	user.reader = &reader{private: opts.PrivateCopies, detector: i.reader.detector}
	user.panics = onPanic(opts)
	return &user
}

func onPanic(opts Options) func(*PanicError) {
	if opts.OnPanic == nil {
		return logPanic
	}
	return opts.OnPanic
}

// Run lists and watches, and serves handlers, until ctx ends. It blocks. It then returns nil, or
// ErrHandlerStuck when a handler did not return within Options.StopTimeout. What keeps an informer
// from being current does not end it: see Err. An informer runs once: Run returns ErrRunning at
// once while another Run is under way, and ErrStopped after one has ended.
func (i *Informer[T]) Run(ctx context.Context) error { return i.engine.Run(ctx) }

// Name returns Options.Name, or the name that the informer has without one.
func (i *Informer[T]) Name() string { return i.name }

// Encoding returns how the objects' bytes are encoded, as Item.AppendRaw gives them.
func (i *Informer[T]) Encoding() Encoding { return Encoding(i.objectType.encoding) }

// Handle registers a handler: before Run, while it runs, before or after the first sync. What the
// informer holds already comes first, as Added events. It does not block. It returns ErrStopped
// after Run, and ErrOptions for a nil Handler.
func (i *Informer[T]) Handle(h Handler[T], opts HandlerOptions[T]) (*Registration, error) {
	if h == nil {
		return nil, fmt.Errorf("%s: %w: no Handler", i.name, ErrOptions)
	}
	o := delivery.Options{Name: opts.Name, Resync: opts.Resync, OnPanic: func(e *delivery.PanicError) { i.panics((*PanicError)(e)) }}
	if filter := opts.Filter; filter != nil {
		o.Filter = func(s *store.Object) bool { return filter(Item[T]{s, i.reader, true}) }
	}
	r, err := i.engine.Handle(func(ctx context.Context, e delivery.Event) { h(ctx, eventOf[T](e, i.reader)) }, o)
	if err != nil {
		return nil, err
	}
	return &Registration{handler: r, engine: i.engine}, nil
}

// WaitForSync blocks until everything that the first lists brought is held. If ctx ends first, the
// error wraps ErrNotSynced, the context's error and what has kept the informer from syncing:
// errors.Is(err, ErrForbidden), say. If the informer is stopped first, it wraps ErrNotSynced and
// ErrStopped.
func (i *Informer[T]) WaitForSync(ctx context.Context) error { return i.engine.WaitForSync(ctx) }

// HasSynced reports whether WaitForSync would return nil at once.
func (i *Informer[T]) HasSynced() bool { return i.store.Synced() }

// WaitForResourceVersion blocks until the informer holds everything up to a resourceVersion. Pass
// the one that a write returned to read your own writes. With several namespaces or selectors it
// blocks until each has reached it. A quiet one reaches it with its next bookmark, which a
// kube-apiserver sends about once a minute. Once the informer knows that the server was restored,
// resourceVersions from before do not count as reached.
//
// If ctx ends first, the error wraps the context's error and Err. If the informer is stopped first,
// it wraps ErrStopped. For a resourceVersion that is no integer it wraps ErrInvalidResourceVersion,
// at once.
func (i *Informer[T]) WaitForResourceVersion(ctx context.Context, resourceVersion string) error {
	return i.engine.WaitForResourceVersion(ctx, resourceVersion)
}

// Err returns why the informer is not current, or nil while it is. The error wraps one of the
// sentinels from ErrForbidden to ErrEncoding for each reflector that is not current. The informer
// recovers by itself when the cause goes away.
func (i *Informer[T]) Err() error { return i.engine.Err() }

// WaitForErr blocks until Err is not nil, and returns it. If ctx ends first, it returns the
// context's error. If the informer is stopped first, the error wraps ErrStopped. A program that
// waits for WaitForSync and WaitForErr at once learns either that the informer has synced or what
// keeps it from syncing.
func (i *Informer[T]) WaitForErr(ctx context.Context) (err error) {
	if wait := i.engine.WaitFor(ctx, func() bool { err = i.Err(); return err != nil }); wait != nil {
		return wait
	}
	return err
}

func onStatus(tell func(Status)) func(engine.Status) {
	if tell == nil {
		return nil
	}
	return func(s engine.Status) { tell(statusOf(s)) }
}
