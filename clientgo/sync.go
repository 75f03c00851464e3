package clientgo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/engine"
)

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
		err := i.engine.WaitForSync(ctx)
		if err == nil {
			err = i.waitHasSynced(ctx)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// waitHasSynced waits for HasSynced once the store has synced.
func (i *informer) waitHasSynced(ctx context.Context) error {
	select {
	case <-i.synced:
		return nil
	default:
	}
	select {
	case <-i.synced:
		return nil
	case <-i.ended:
		if i.HasSynced() {
			return nil
		}
		return fmt.Errorf("%s: %w", i.name, errStopped)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", i.name, engine.WithContextError(ctx, context.Cause(ctx)))
	}
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
