package store

import "errors"

var (
	// ErrNoDecoder is returned by Object.Decoded of a store without Config.Decode.
	ErrNoDecoder = errors.New("store: no decoder configured")
	// ErrTrimmed is returned by CursorAt when the log no longer reaches back to the revision.
	ErrTrimmed = errors.New("store: revision is no longer in the change log")
	// ErrFutureRevision is returned by CursorAt for a revision that the store has not reached.
	ErrFutureRevision = errors.New("store: revision is in the future")
	// ErrIndexExists is returned by AddIndex for a name that is taken.
	ErrIndexExists = errors.New("store: index exists")
	// ErrUnknownIndex is returned by Snapshot.By and Snapshot.Values.
	ErrUnknownIndex = errors.New("store: unknown index")
	// ErrOutOfScope is returned by Writer.Put for an object of another namespace than the writer's.
	ErrOutOfScope = errors.New("store: object is outside the writer's namespace")
	// ErrNoName is returned by Writer.Put and Writer.Delete for an object without metadata.name.
	ErrNoName = errors.New("store: object has no name")
	// ErrTooLarge is returned by Writer.Put and Writer.Delete for an object beyond 4 GiB or a name
	// beyond 64 KiB.
	ErrTooLarge = errors.New("store: too large")
	// ErrNotInteger is returned by WaitResourceVersion for a version that cannot be compared.
	ErrNotInteger = errors.New("store: not an integer")
	// ErrClosed is returned by what cannot work on a closed store.
	ErrClosed = errors.New("store: closed")
	// ErrWriterRemoved is returned by Writer.Put and Writer.Delete after Remove.
	ErrWriterRemoved = errors.New("store: writer was removed")
)
