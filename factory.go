package weir

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/source"
)

// Factory shares informers: users with the same options get the same informer, see Use. It runs
// from its first user to its last (kubernetes issue 79610: stop one informer). All informers of a
// factory share a Server. Its methods are safe for concurrent use.
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
	// users are leases, each with its OnStatus or nil. The factory's lock guards them.
	users map[any]func(Status)
	stop  context.CancelFunc
	done  chan struct{}
	err   error // of Run; read after done

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

// Use returns a lease of an informer of T with these options, and starts the informer when it has
// no other user. It blocks only while an index by label or field is added to an informer that holds
// objects, and only users of that informer wait for it.
//
// What a user sets holds for that user. Users share an informer only when they agree on
//
//   - which objects it has: T, Resource or else the kind that Scheme knows T by, Namespaces and
//     Selectors in any order, Shard, Drop;
//   - who may change objects: ShareDecoded, DetectMutation;
//   - how it works: DecodedBudget, DecodedIdle, LogBytes, ListWatch, Server, StopTimeout. A value and
//     the zero value that means it are different.
//
// Each user of a shared informer has its own PrivateCopies, OnPanic for its handlers, and OnStatus,
// which is called from Use to Release. Indexes that are missing are added, for all users. Name is
// the first user's.
//
// Use returns ErrIndexExists when an index of that name is defined otherwise (see ByFunc for when
// two functions are one), and then adds none; ErrOptions if the options make no sense; ErrStopped
// when the factory has been shut down.
func Use[T Object](f *Factory, opts Options) (*Lease[T], error) {
	key, err := shareKeyOf[T](f, opts)
	if err != nil {
		return nil, err
	}
	lease := &Lease[T]{factory: f, key: key}
	if lease.shared, err = use(f, lease, opts); err != nil {
		return nil, err
	}
	lease.informer = lease.shared.informer.(*Informer[T]).forUser(opts)
	if err := addIndexes(lease.informer, lease.shared, opts.Indexes); err != nil {
		lease.Release()
		return nil, err
	}
	return lease, nil
}

// use returns the informer of the lease's key, with the lease among its users.
func use[T Object](f *Factory, lease *Lease[T], opts Options) (*shared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return nil, fmt.Errorf("factory: %w", ErrStopped)
	}
	if sh, ok := f.shared[lease.key]; ok {
		sh.users[lease] = opts.OnStatus
		return sh, nil
	}
	sh := &shared{users: map[any]func(Status){lease: opts.OnStatus}, indexes: map[string]Index{}, done: make(chan struct{})}
	maps.Copy(sh.indexes, opts.Indexes)
	opts.Server, opts.OnStatus = lease.key.server, func(s Status) { f.report(sh, s) }
	inf, err := NewInformer[T](f.cfg, opts)
	if err != nil {
		return nil, err
	}
	sh.informer = inf
	f.start(sh, inf.Run)
	f.shared[lease.key] = sh
	return sh, nil
}

// start runs an informer in a goroutine that ends with its last user or with the factory.
func (f *Factory) start(sh *shared, run func(context.Context) error) {
	ctx, stop := context.WithCancel(f.ctx)
	sh.stop = stop
	f.runs.Go(func() {
		defer stop()
		defer close(sh.done)
		sh.err = run(ctx)
	})
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

// report calls the OnStatus of each user of an informer.
func (f *Factory) report(sh *shared, s Status) {
	f.mu.Lock()
	users := slices.Collect(maps.Values(sh.users))
	f.mu.Unlock() // a user may call the factory
	for _, onStatus := range users {
		if onStatus != nil {
			onStatus(s)
		}
	}
}

// release ends a use. The informer stops if it was the last one.
func (f *Factory) release(key shareKey, sh *shared, lease any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(sh.users, lease)
	if len(sh.users) > 0 {
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
