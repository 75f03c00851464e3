package store

import "errors"

// Some of these errors reach users, so their texts name no package.
var (
	// ErrNoDecoder is returned in a store without Config.Decode: by AddIndex for an index by function,
	// and by Object.Decoded.
	ErrNoDecoder = errors.New("the store has no decoder")
	// ErrTrimmed is returned by CursorAt when the log no longer reaches back to the revision.
	ErrTrimmed = errors.New("the revision is no longer in the change log")
	// ErrFutureRevision is returned by CursorAt for a revision that the store has not reached.
	ErrFutureRevision = errors.New("the revision is in the future")
	// ErrIndexExists is returned by AddIndex for a name that is already used.
	ErrIndexExists = errors.New("index exists")
	// ErrUnknownIndex is returned by By, ByFrom and AppendBy for an index that does not exist.
	ErrUnknownIndex = errors.New("unknown index")
	// ErrOutOfScope is returned by Writer.Put for an object of another namespace than the writer's.
	ErrOutOfScope = errors.New("object is outside the writer's namespace")
	// ErrNoName is returned by Writer.Put and Writer.Delete for an object without metadata.name.
	ErrNoName = errors.New("object has no name")
	// ErrTooLarge is returned by Writer.Put and Writer.Delete for an object of more than 4 GiB, or a
	// name of more than 64 KiB.
	ErrTooLarge = errors.New("too large")
	// ErrInvalidResourceVersion is returned by WaitResourceVersion for a version that cannot be
	// compared.
	ErrInvalidResourceVersion = errors.New("not an integer")
	// ErrClosed is returned by methods that cannot work on a closed store.
	ErrClosed = errors.New("the store is closed")
	// ErrWriterRemoved is returned by Writer.Put and Writer.Delete after Remove.
	ErrWriterRemoved = errors.New("the writer was removed")
)
