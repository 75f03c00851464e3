package reflector

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/wire"
)

// Sink is what a reflector writes to. A store's Writer is a Sink. To change objects before they are
// stored, or to control how a relist updates a store, embed the Writer in another type. All methods
// are called in the goroutine of Run, unless their comments say otherwise, so a method that blocks
// delays Run.
type Sink interface {
	// ResourceVersion returns the version that the sink is current to, at which Run resumes. If it
	// returns "", Run starts with a list.
	ResourceVersion() string
	// Take receives an object. t is 0 for an item of a list, and otherwise the type of the event. The
	// metadata of a deleted object has the resourceVersion of the deletion. m and object are valid
	// during the call. If the source returns Go values instead of bytes, value is set and object is
	// nil. If Take returns an error, the reflector skips the object and counts it in Status.Skipped.
	// If the object is from an event, the reflector then lists, because the list may contain the
	// object intact. After a Refusal it does not list.
	Take(t wire.EventType, m *wire.Meta, object []byte, value any) error
	// DeleteNamesake deletes the stored object that has the same name as the object with metadata m,
	// which Config.Keep does not want. The stored object is a different, older one, whose deletion
	// event was missed.
	DeleteNamesake(m *wire.Meta, object []byte) error
	// Flush makes the objects that Take received visible to readers. The reflector calls it before
	// each wait for the network.
	Flush() (changes int)
	// Progress says that the sink has received all changes up to resourceVersion.
	Progress(resourceVersion string)
	// Coalesced says that the server coalesces the following changes, up to resourceVersion: it sends
	// only one event for each key, deletions first. The reflector does not call Progress until it has
	// reached that version, or until a list has ended. It then calls Coalesced with "".
	Coalesced(resourceVersion string)

	// BeginReplace starts a list, or initial events. rebase is true if the server has gone back in
	// time: then a stored object with a higher resourceVersion is not newer than the listed one.
	BeginReplace(rebase bool)
	// EndReplace says that the list is complete and current to resourceVersion. Stored objects that
	// Take has not received since BeginReplace do not exist on the server.
	EndReplace(resourceVersion string)
	// AbortReplace says that the list failed before its end. The sink must not delete objects because
	// of it.
	AbortReplace()

	// Err returns the error because of which the sink accepts no more writes, or nil. An error ends
	// Run.
	Err() error

	// ListRequested says that the reflector now requests a LIST, or a WATCH with initial events, whose
	// objects it will pass between the next BeginReplace and EndReplace. If another writer finds a
	// restore of the server after this call, the listed state may be older than that restore.
	ListRequested()
	// Outdated returns true if another writer of the same store has found that the server went back in
	// time, after this sink's last ListRequested. WhenOutdated sets the function that is called once
	// when another writer finds that. The goroutine of the other writer calls it. nil removes the
	// function.
	Outdated() bool
	WhenOutdated(f func())
	// Behind reports whether a running reader, such as a handler, does not keep up with the changes.
	// read is the number of changes that such readers have read, on average.
	Behind() (behind bool, read uint64)
}

// Refusal is an error of Sink.Take for an object that the sink would also refuse if a list
// contained it. The reflector does not list because of it.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return fmt.Sprintf("refused: %v", r.Err) }

// Unwrap returns the reason of the refusal.
func (r Refusal) Unwrap() error { return r.Err }
