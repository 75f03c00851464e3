package clientgo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// ErrForeignInformer is returned for an informer of another package.
var ErrForeignInformer = errors.New("clientgo: not an informer of this package")

// ErrExcluded is returned by a transform, wrapped or not, to leave out a version of an object on
// purpose. The informer does not store, log or count that version as unreadable, and no handler
// receives it. The previous version stays until a later one is stored or the object is deleted;
// without one, the object is not in the store. Return (nil, ErrExcluded): the value is ignored.
var ErrExcluded = errors.New("clientgo: the transform excludes this version")

var (
	// errNoConfig is returned by the constructors of factories that take a config.
	errNoConfig = errors.New("clientgo: no rest.Config")
	// errStarted is returned by SetTransform and SetWatchErrorHandler after the start.
	errStarted = errors.New("informer has already started")
	// errStopped is returned for additions to an informer that has stopped.
	errStopped = errors.New("informer has stopped already")
	// errNotRegistration is returned by RemoveEventHandler.
	errNotRegistration = errors.New("not a registration of an informer")
	// errNotIndexed is returned by AddIndexers, with client-go's text.
	errNotIndexed = errors.New("indexer was not added because it has stopped already")
)

// notAddedError is returned by AddEventHandler with client-go's text, which callers may search.
type notAddedError struct {
	handler string
	cause   error
}

func (e notAddedError) Error() string {
	return "handler " + e.handler + " was not added to shared informer because it has stopped already"
}

func (e notAddedError) Unwrap() []error { return []error{errStopped, e.cause} }

// Err returns the error that keeps an informer from being current, or nil. The informer recovers
// automatically; Err then returns nil again. errors.Is finds a sentinel of package weir, such as
// weir.ErrForbidden; apierrors.IsForbidden and similar functions work too. inf is an informer of
// this package or a wrapper of one, such as generated factories return; for any other informer, and
// for nil, Err returns ErrForeignInformer. Err does not block.
func Err(inf cache.SharedIndexInformer) error {
	i, err := informerOf(inf)
	if err != nil {
		return err
	}
	return i.engine.Err()
}

// WaitForSync blocks until the first list of each informer is stored, like cache.WaitForCacheSync.
// If the context ends first, the error names what keeps each of the remaining informers from
// syncing: errors.Is finds the context's error and, if there is a reason, a sentinel of package
// weir. WaitForSync waits for an informer that is not started yet, but returns an error for one
// that stopped before it synced. It immediately returns ErrForeignInformer if an informer is not of
// this package.
func WaitForSync(ctx context.Context, inf ...cache.SharedIndexInformer) error {
	all := make([]*informer, len(inf))
	for n := range inf {
		var err error
		if all[n], err = informerOf(inf[n]); err != nil {
			return err
		}
	}
	var errs []error
	for _, i := range all {
		errs = append(errs, i.engine.WaitForSync(ctx))
		i.HasSynced() // closes the channel of HasSyncedChecker if the informer has synced
	}
	return errors.Join(errs...)
}

// informerOf returns the informer inside inf. It finds it by the store: wrappers, such as
// client-go's typed ones, return the inner informer's.
func informerOf(inf cache.SharedIndexInformer) (*informer, error) {
	if inf != nil {
		if x, ok := inf.GetStore().(*indexer); ok && x.informer != nil {
			return x.informer, nil
		}
	}
	if !layoutKnown() {
		return nil, fmt.Errorf("%w: %T: %w", ErrForeignInformer, inf, ErrLayout)
	}
	return nil, fmt.Errorf("%w: %T", ErrForeignInformer, inf)
}
