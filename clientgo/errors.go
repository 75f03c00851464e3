package clientgo

import "errors"

// ErrNotOurs: the informer was not made by this package, so nothing is known of it.
var ErrNotOurs = errors.New("clientgo: not an informer of this package")

var (
	// errNotProtobuf: the server answered in protobuf for a type that has none.
	errNotProtobuf = errors.New("the type has no protobuf form")
	// errStarted is SetTransform's and SetWatchErrorHandler's.
	errStarted = errors.New("informer has already started")
	// errStopped is for what cannot be added to an informer that has run.
	errStopped = errors.New("informer has stopped already")
	// errForeign is RemoveEventHandler's.
	errNotRegistration = errors.New("not a registration of an informer")
	// errNotIndexed is AddIndexers's, in client-go's words.
	errNotIndexed = errors.New("indexer was not added because it has stopped already")
)

// notAdded is AddEventHandler's error, in client-go's words, which somebody may look for.
type notAddedError struct {
	handler string
	cause   error
}

func (e notAddedError) Error() string {
	return "handler " + e.handler + " was not added to shared informer because it has stopped already"
}

func (e notAddedError) Unwrap() []error { return []error{errStopped, e.cause} }
