package clientgo

import "errors"

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
