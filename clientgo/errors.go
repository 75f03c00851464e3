package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/registry"
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

// unadopted lists the informers with an UnknownFieldError. add removes those that have stopped.
var unadopted unadoptedInformers

type unadoptedInformers struct {
	mu     sync.Mutex
	errors map[cache.SharedIndexInformer]*UnknownFieldError
}

// add logs and counts an informer, and adds it to the list.
func (u *unadoptedInformers) add(inf cache.SharedIndexInformer, err *UnknownFieldError) {
	klog.Background().Error(err, "Cannot adopt an informer of client-go")
	registry.AddUnadopted(err.Field)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.errors == nil {
		u.errors = map[cache.SharedIndexInformer]*UnknownFieldError{}
	}
	maps.DeleteFunc(u.errors, func(inf cache.SharedIndexInformer, _ *UnknownFieldError) bool { return inf.IsStopped() })
	u.errors[inf] = err
}

// errorOf returns the error of an informer of the list, or of a wrapper of one.
func (u *unadoptedInformers) errorOf(inf cache.SharedIndexInformer) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for listed, err := range u.errors {
		if listed.GetStore() == inf.GetStore() {
			return err
		}
	}
	return nil
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
		if err := unadopted.errorOf(inf); err != nil {
			return nil, err
		}
	}
	if !layoutKnown() {
		return nil, fmt.Errorf("%w: %T: %w", ErrForeignInformer, inf, ErrLayout)
	}
	return nil, fmt.Errorf("%w: %T", ErrForeignInformer, inf)
}
