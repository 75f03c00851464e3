package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/engine"
)

// ErrForeignInformer is returned when an argument is not an informer of this package.
var ErrForeignInformer = errors.New("clientgo: not an informer of this package")

// ErrExcluded is returned by a transform to exclude a version of an object on purpose. The
// transform may also return an error that wraps ErrExcluded. The informer then does not store this
// version, does not log the error or count the object as unreadable, and calls no handler. The
// previous version stays stored until the informer stores a later version or the object is deleted.
// If there is no previous version, the object is not stored. The informer ignores the value that
// the transform returns with ErrExcluded. client-go's informers, which Options.Off restores, do not
// know ErrExcluded: like after any error of a transform, they repeat the list or skip the event.
var ErrExcluded = errors.New("clientgo: the transform excludes this version")

var (
	// errStarted is returned by SetTransform and SetWatchErrorHandler after the informer has started.
	errStarted = errors.New("informer has already started")
	// errStopped is wrapped by AddEventHandler's error after the informer has stopped.
	errStopped = errors.New("informer has stopped already")
	// errOff is returned by informerOf for client-go's informers after isOff has returned true.
	errOff = errors.New("package clientgo is off")
	// errUnused is returned by informerOf for an informer of an adopted factory that the program has
	// not used.
	errUnused = errors.New("the informer is not used")
	// errNotRegistration is returned by RemoveEventHandler for a value of another type than a
	// registration.
	errNotRegistration = errors.New("not a registration of an informer")
	// errNotIndexed is returned by AddIndexers after the informer has stopped. It has client-go's
	// text.
	errNotIndexed = errors.New("indexer was not added because it has stopped already")
)

// notAddedError is returned by AddEventHandler. It has client-go's text, because callers may
// compare it.
type notAddedError struct {
	handler string
	cause   error
}

func (e notAddedError) Error() string {
	return "handler " + e.handler + " was not added to shared informer because it has stopped already"
}

func (e notAddedError) Unwrap() []error { return []error{errStopped, e.cause} }

// Err returns the reason why an informer may lack recent changes, or nil. The informer retries, and
// Err returns nil after the informer has recovered. The error wraps one of package weir's errors,
// such as weir.ErrForbidden; apierrors.IsForbidden and similar functions work too. inf is an
// informer of this package, or a wrapper of one, such as the informers of a generated factory. For
// nil, or any other informer, Err returns ErrForeignInformer; but if Options.Off has had an effect
// in the process, it returns nil for any other informer, unless a shard or a transform was set for
// it and does not apply. For an informer of an adopted factory that the program has not used, Err
// returns nil. With Options.Shadow, the error also wraps ErrShadow after a difference; if
// client-go's informer serves the program, Err returns no other error. Err does not block.
func Err(inf cache.SharedIndexInformer) error {
	i, err := informerOf(inf)
	switch {
	case err == errOff, err == errUnused:
		return nil
	case err != nil:
		return err
	case i.shadowed == nil:
		return i.engine.Err()
	case i.shadowed.serving == clientGoSide:
		return i.shadowed.err()
	}
	return errors.Join(i.engine.Err(), i.shadowed.err())
}

// WaitForSync blocks until the first list of each informer is stored, like cache.WaitForCacheSync.
// It also waits for an informer that has not started, and starts one of an adopted factory that the
// program has not used. If ctx ends first, the error wraps the context's error. If an informer
// cannot sync because of an error, the returned error also wraps one of package weir's errors for
// this informer. For an informer that stopped before it synced, the error wraps weir.ErrStopped.
// WaitForSync immediately returns ErrForeignInformer if an informer is not of this package, unless
// Options.Off has had an effect in the process: it then waits for such an informer too, also if Err
// returns an error for it.
func WaitForSync(ctx context.Context, inf ...cache.SharedIndexInformer) error {
	for _, inf := range inf {
		if o, ok := ownerOf(inf).(*onRequest); ok {
			o.request(true)
		}
		if _, err := informerOf(inf); err != nil && (inf == nil || !off.Load()) {
			return err
		}
	}
	var errs []error
	for _, inf := range inf {
		errs = append(errs, waitForSync(ctx, inf))
	}
	return errors.Join(errs...)
}

// waitForSync blocks until an informer of this package or of client-go has synced.
func waitForSync(ctx context.Context, inf cache.SharedIndexInformer) error {
	if i, err := informerOf(inf); err == nil && i.shadowed == nil {
		defer i.HasSynced() // HasSynced completes syncChecker
		return i.engine.WaitForSync(ctx)
	}
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		return fmt.Errorf("%T: %w: %w", inf, engine.ErrNotSynced, ctx.Err())
	}
	return nil
}

// UnknownFieldError is returned by Err for an informer of client-go that a factory or Adopt
// returned unchanged, because a later client-go has set a field that this package does not know.
// Package metrics counts these informers. The error wraps ErrForeignInformer.
type UnknownFieldError struct {
	Field    string // the private field of client-go's informer
	Informer string // the description of the informer's objects, or their Go type
}

func (e *UnknownFieldError) Error() string {
	return fmt.Sprintf("clientgo: the informer of %s remains client-go's: its field %s is unknown", e.Informer, e.Field)
}

// Unwrap returns ErrForeignInformer.
func (e *UnknownFieldError) Unwrap() error { return ErrForeignInformer }

// unadopted contains the informers of client-go for which Err returns another error than
// ErrForeignInformer alone. add removes those that have stopped.
var unadopted struct {
	informers sync.Map // unadoptedInformer by the informer's store, which wrappers return too
	// factory is the error of a factory that lacks an option and whose informers cannot be listed:
	// they may be any of client-go's.
	factory atomic.Pointer[error]
}

type unadoptedInformer struct {
	cache.SharedIndexInformer
	err error
}

// addUnadopted logs the error of an informer, and makes Err report it. It holds no lock while it
// calls methods of the informers, and ignores their panics: a wrapper may call Err, and a test's
// fake may panic.
func addUnadopted(inf cache.SharedIndexInformer, err error) {
	klog.Background().Error(err, "Cannot adopt an informer of client-go")
	defer func() { _ = recover() }()
	unadopted.informers.Store(inf.GetStore(), unadoptedInformer{inf, err})
	unadopted.informers.Range(func(store, u any) bool {
		if u.(unadoptedInformer).IsStopped() {
			unadopted.informers.Delete(store)
		}
		return true
	})
}

// unadoptedError returns the error of an informer of client-go, or of a wrapper of one, or nil.
func unadoptedError(inf cache.SharedIndexInformer) (err error) {
	defer func() { _ = recover() }() // as in addUnadopted
	if of := unadopted.factory.Load(); of != nil {
		err = *of
	}
	if u, ok := unadopted.informers.Load(inf.GetStore()); ok {
		err = u.(unadoptedInformer).err
	}
	return err
}

// informerOf returns the informer of this package that inf is or wraps; for an informer with
// Options.Shadow, the one of the two. After isOff has returned true in the process, it returns
// errOff for any other informer.
func informerOf(inf cache.SharedIndexInformer) (*informer, error) {
	owner := ownerOf(inf)
	if o, ok := owner.(*onRequest); ok {
		var built bool
		if inf, built = o.current(); !built {
			return nil, errUnused
		}
		owner = ownerOf(inf)
	}
	switch owner := owner.(type) {
	case *informer:
		return owner, nil
	case *shadowed:
		return owner.weir, nil
	}
	if inf != nil {
		if err := unadoptedError(inf); err != nil {
			return nil, err
		}
		if off.Load() {
			return nil, errOff
		}
	}
	if !layoutKnown() {
		return nil, fmt.Errorf("%w: %T: %w", ErrForeignInformer, inf, ErrLayout)
	}
	return nil, fmt.Errorf("%w: %T", ErrForeignInformer, inf)
}
