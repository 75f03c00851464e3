package clientgo

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// Err is what now keeps an informer from being current: nil while it is. The informer recovers by itself, and Err is nil again
// then. errors.Is finds one of package reflector's sentinels, such as reflector.ErrForbidden, and apierrors.IsForbidden and
// its kin hold as well. inf is an informer of this package, or a wrapping of one, such as those that generated factories hand
// out; for any other the error is ErrNotOurs. It does not block.
func Err(inf cache.SharedIndexInformer) error {
	i, err := informerOf(inf)
	if err != nil {
		return err
	}
	return i.engine.Err()
}

// WaitForSync blocks until the first list of each informer is held, as cache.WaitForCacheSync does. When the context ends
// first the error tells what has kept each of the others from it: errors.Is finds the context's error, and where there is a
// reason the reflector's sentinel. An informer that stops before it has synced is an error at once; one that is never started is
// waited for. For an informer that is not of this package the error is ErrNotOurs, at once.
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

// waitTold waits, once the store has synced, for HasSynced to say so.
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
		return context.Cause(ctx)
	}
}

// ours is the informer behind inf. Its store tells: wrappers, client-go's typed ones among them, pass that on.
func informerOf(inf cache.SharedIndexInformer) (*informer, error) {
	if inf != nil {
		if x, ok := inf.GetStore().(*indexer); ok && x.informer != nil {
			return x.informer, nil
		}
	}
	if !layoutKnown() {
		return nil, fmt.Errorf("%w: %T: %w", ErrNotOurs, inf, ErrLayout)
	}
	return nil, fmt.Errorf("%w: %T", ErrNotOurs, inf)
}
