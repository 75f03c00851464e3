package clientgo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

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
	// errNoConfig is returned by the factory constructors that need a config.
	errNoConfig = errors.New("clientgo: no rest.Config")
	// errStarted is returned by SetTransform and SetWatchErrorHandler after the informer has started.
	errStarted = errors.New("informer has already started")
	// errStopped is wrapped by AddEventHandler's error after the informer has stopped.
	errStopped = errors.New("informer has stopped already")
	// errOff is returned by informerOf for client-go's informers after isOff has returned true.
	errOff = errors.New("package clientgo is off")
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
// in the process, it returns nil for any other informer. With Options.Shadow, the error also wraps
// ErrShadow after a difference; if client-go's informer serves the program, Err returns no other
// error. Err does not block.
func Err(inf cache.SharedIndexInformer) error {
	i, err := informerOf(inf)
	switch {
	case err == errOff:
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
// It also waits for an informer that has not started. If ctx ends first, the error wraps the
// context's error. If an informer cannot sync because of an error, the returned error also wraps
// one of package weir's errors for this informer. For an informer that stopped before it synced,
// the error wraps weir.ErrStopped. WaitForSync immediately returns ErrForeignInformer if an
// informer is not of this package, unless Options.Off has had an effect in the process: it then
// waits for such an informer too.
func WaitForSync(ctx context.Context, inf ...cache.SharedIndexInformer) error {
	all := make([]*informer, len(inf))
	for n := range inf {
		var err error
		if all[n], err = informerOf(inf[n]); err != nil && err != errOff {
			return err
		}
	}
	var errs []error
	for n, i := range all {
		if i == nil || i.shadowed != nil {
			if !cache.WaitForCacheSync(ctx.Done(), inf[n].HasSynced) {
				errs = append(errs, fmt.Errorf("%T: %w: %w", inf[n], engine.ErrNotSynced, ctx.Err()))
			}
			continue
		}
		errs = append(errs, i.engine.WaitForSync(ctx))
		i.HasSynced() // HasSynced completes syncChecker
	}
	return errors.Join(errs...)
}

// informerOf returns inf, or the informer that inf wraps, if it is of this package. It finds the
// informer by inf's store, because wrappers such as client-go's typed informers return the store of
// the informer that they wrap. After isOff has returned true in the process, it returns errOff for
// any other informer.
func informerOf(inf cache.SharedIndexInformer) (*informer, error) {
	switch inf := withoutTypes(inf).(type) {
	case *shadowed:
		return inf.weir, nil
	case *onRequest:
		return inf.current(), nil
	}
	if inf != nil {
		if x, ok := inf.GetStore().(*indexer); ok && x.informer != nil {
			return x.informer, nil
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
