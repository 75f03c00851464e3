package weir

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/source"
)

// Factory shares informers: users that ask for the same objects get the same informer, which runs
// from its first user to its last (kubernetes issue 79610: stop one informer). They share a Server.
// Its methods are safe for concurrent use.
type Factory struct {
	cfg    *rest.Config
	ctx    context.Context
	stop   context.CancelFunc
	runs   sync.WaitGroup
	server Server // that of cfg

	mu     sync.Mutex
	shared map[shareKey]*shared
}

// shared is one informer with its users.
type shared struct {
	informer any // *Informer[T]
	users    int // guarded by the factory's lock
	stop     context.CancelFunc
	done     chan struct{}
	err      error // of Run; read after done

	indexing sync.Mutex // held while indexes are built; the factory's lock is not
	indexes  map[string]Index
}

// NewFactory returns a factory whose informers end with ctx at the latest. It copies cfg and makes
// no request.
func NewFactory(ctx context.Context, cfg *rest.Config) *Factory {
	if cfg != nil { // else Use says so
		cfg = source.CopyConfig(cfg)
	}
	ctx, stop := context.WithCancel(ctx)
	return &Factory{cfg: cfg, ctx: ctx, stop: stop, shared: map[shareKey]*shared{}}
}

// Use returns a lease of the informer of T with these options, and starts the informer when it has
// no other user. It blocks only while an index by label or field is added to an informer that holds
// objects, and only users of that informer wait for it. Users share an informer when they ask for
// the same objects: the same T, Resource, Namespaces, Selectors, Shard and Drop. The rest of the
// options is the first user's, except Indexes: those that are missing are added. It returns
// ErrIndexExists when an index of that name is defined otherwise (see ByFunc for when two functions
// are one), and then adds none; ErrStopped when the factory has been shut down.
func Use[T Object](f *Factory, opts Options) (*Lease[T], error) {
	if err := opts.Shard.Validate(); err != nil { // else its key may be that of all objects
		return nil, err
	}
	key := shareKeyOf[T](opts)
	sh, err := use[T](f, key, opts)
	if err != nil {
		return nil, err
	}
	inf := sh.informer.(*Informer[T])
	if err := addIndexes(inf, sh, opts.Indexes); err != nil {
		f.release(key, sh)
		return nil, err
	}
	return &Lease[T]{informer: inf, factory: f, key: key, shared: sh}, nil
}

// use returns the informer of a key, which has one user more.
func use[T Object](f *Factory, key shareKey, opts Options) (*shared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return nil, fmt.Errorf("factory: %w", ErrStopped)
	}
	sh, ok := f.shared[key]
	if !ok {
		if opts.Server == nil {
			opts.Server = &f.server
		}
		inf, err := NewInformer[T](f.cfg, opts)
		if err != nil {
			return nil, err
		}
		sh = f.start(inf, inf.Run, opts.Indexes)
		f.shared[key] = sh
	}
	sh.users++
	return sh, nil
}

// start runs an informer in a goroutine that ends with its last user or with the factory.
func (f *Factory) start(informer any, run func(context.Context) error, indexes map[string]Index) *shared {
	ctx, stop := context.WithCancel(f.ctx)
	sh := &shared{informer: informer, indexes: map[string]Index{}, stop: stop, done: make(chan struct{})}
	for name, ix := range indexes {
		sh.indexes[name] = ix
	}
	f.runs.Go(func() {
		defer stop()
		defer close(sh.done)
		sh.err = run(ctx)
	})
	return sh
}

// Shutdown stops all informers and blocks until they have ended. Use returns ErrStopped from then
// on. The error joins those of their Run. Informers whose leases were released before have none:
// their handlers were removed, and are not waited for.
func (f *Factory) Shutdown() error {
	f.mu.Lock()
	f.stop() // under the lock: a Use that is under way has started its informer, or starts none
	f.mu.Unlock()
	f.runs.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for key, sh := range f.shared {
		errs = append(errs, sh.err)
		delete(f.shared, key)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return errors.Join(errs...)
}

func (f *Factory) release(key shareKey, sh *shared) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sh.users--
	if sh.users > 0 {
		return
	}
	sh.stop()
	if f.shared[key] == sh {
		delete(f.shared, key)
	}
}

// addIndexes adds what a later user wants and the informer has not; nothing if a name is taken by
// another index. It holds sh.indexing, never the factory's lock, since to build an index may take
// long.
func addIndexes[T Object](inf *Informer[T], sh *shared, want map[string]Index) error {
	sh.indexing.Lock()
	defer sh.indexing.Unlock()
	for name, ix := range want {
		if have, ok := sh.indexes[name]; ok && !have.same(ix) {
			return fmt.Errorf("%s: index %q: %w", inf.name, name, ErrIndexExists)
		}
	}
	for name, ix := range want {
		if _, ok := sh.indexes[name]; ok {
			continue
		}
		if err := inf.AddIndex(name, ix); err != nil {
			return err
		}
		sh.indexes[name] = ix
	}
	return nil
}

// shareKey is what makes an informer another one: its type, and which objects it holds. Types of
// different packages may be called alike.
type shareKey struct {
	goType  reflect.Type
	objects string
}

func shareKeyOf[T Object](opts Options) shareKey {
	sorted := func(list []string) []string {
		list = slices.Clone(list)
		slices.Sort(list)
		return list
	}
	return shareKey{
		goType:  reflect.TypeFor[T](),
		objects: fmt.Sprintf("%q %q %q %q %s", opts.Resource, sorted(opts.Namespaces), opts.Selectors, sorted(opts.Drop), opts.Shard.selector()),
	}
}
