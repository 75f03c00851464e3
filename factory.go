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

	"github.com/weirproject/weir/internal/core/source"
)

// Factory shares informers: users with the same options get the same informer. Acquire lists these
// options. An informer runs from its first user's Acquire to its last user's Release. (Informers of
// client-go's factory cannot be stopped one by one: kubernetes issue 79610.) All informers of a
// factory share a ServerGroup. The methods are safe for concurrent use.
type Factory struct {
	cfg    *rest.Config
	ctx    context.Context
	stop   context.CancelFunc
	runs   sync.WaitGroup
	server ServerGroup // the default of Options.Server

	mu     sync.Mutex
	shared map[shareKey]*shared
}

// shared is one informer and its users.
type shared struct {
	informer any // *Informer[T]
	// users maps each SharedInformer to its OnStatus, which may be nil. The factory's lock guards the
	// map.
	users map[any]func(Status)
	stop  context.CancelFunc
	done  chan struct{}
	err   error // Run's error; valid after done is closed

	indexing sync.Mutex // held while indexes are added; the factory's lock is not held then
	indexes  map[string]Index
}

// NewFactory returns a factory for informers on cfg's server. The informers stop when ctx ends, at
// Shutdown, or when their last user releases them. NewFactory copies cfg and sends no request.
func NewFactory(ctx context.Context, cfg *rest.Config) *Factory {
	if cfg != nil { // if it is nil, Acquire returns an error
		cfg = source.CopyConfig(cfg)
	}
	ctx, stop := context.WithCancel(ctx)
	return &Factory{cfg: cfg, ctx: ctx, stop: stop, shared: map[shareKey]*shared{}}
}

// Acquire returns a shared informer of T with these options, and starts the informer if it has no
// other user. Acquire blocks only in one case: while this call, or the call of another user, adds
// an index by label or field to an informer that already stores objects. Call Release when the
// informer is no longer needed.
//
// Users share an informer if they have the same values of
//
//   - the options that select objects: T, Resource (by default the kind that Scheme has for T),
//     Namespaces and Selectors in any order, Shard, DropFields;
//   - the options about changes to shared objects: ShareDecoded, DetectMutation;
//   - the options about the informer's operation: DecodedBudget, DecodedIdle, LogBytes, ListWatch,
//     Server, StopTimeout. The zero value and an explicit default count as different.
//
// PrivateCopies, OnPanic and OnStatus apply to each user separately: OnPanic receives the panics of
// the user's own handlers, and OnStatus receives statuses from Acquire to Release. Acquire adds
// missing Indexes for all users. Name is the first user's Name.
//
// If the informer has an index of the same name with another definition, Acquire adds no index and
// returns ErrIndexExists; ByFunc defines when two functions are the same. Acquire returns
// ErrInvalidOptions if the options are invalid, and ErrStopped after the factory's Shutdown.
func Acquire[T Object](f *Factory, opts Options) (*SharedInformer[T], error) {
	key, err := shareKeyOf[T](f, opts)
	if err != nil {
		return nil, err
	}
	lease := &SharedInformer[T]{factory: f, key: key}
	if lease.shared, err = acquire(f, lease, opts); err != nil {
		return nil, err
	}
	lease.informer = lease.shared.informer.(*Informer[T]).forUser(opts)
	if err := addIndexes(&lease.informer, lease.shared, opts.Indexes); err != nil {
		lease.Release()
		return nil, err
	}
	return lease, nil
}

// acquire returns the informer for lease.key, and adds lease to the informer's users. If there is
// no such informer, acquire creates and starts it.
func acquire[T Object](f *Factory, lease *SharedInformer[T], opts Options) (*shared, error) {
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

// start runs an informer in a goroutine until sh.stop is called or the factory stops.
func (f *Factory) start(sh *shared, run func(context.Context) error) {
	ctx, stop := context.WithCancel(f.ctx)
	sh.stop = stop
	f.runs.Go(func() {
		defer stop()
		defer close(sh.done)
		sh.err = run(ctx)
	})
}

// Shutdown stops all informers and blocks until their Run has returned. It returns the joined
// errors of Run. Informers that were released before add no error: their handlers were removed, and
// Run does not wait for removed handlers. After Shutdown, Acquire returns ErrStopped.
func (f *Factory) Shutdown() error {
	f.mu.Lock()
	f.stop() // with the lock held: a concurrent Acquire either has started its informer or fails
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

// report calls the OnStatus of each user of an informer, if the user has set one.
func (f *Factory) report(sh *shared, s Status) {
	f.mu.Lock()
	users := slices.Collect(maps.Values(sh.users))
	f.mu.Unlock() // OnStatus may call the factory
	for _, onStatus := range users {
		if onStatus != nil {
			onStatus(s)
		}
	}
}

// release removes a user, and stops the informer if it has no other user.
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

// addIndexes adds the indexes in want that the informer lacks. If the informer already has an index
// with one of these names but another definition, addIndexes adds no index and returns
// ErrIndexExists. It holds sh.indexing but not the factory's lock, because building an index can
// take long.
func addIndexes[T Object](inf *informer[T], sh *shared, want map[string]Index) error {
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
