package reflector

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/wire"
)

// Sink is what a reflector writes to. A store's Writer is a Sink. To change objects before they are
// stored, or to control how a relist updates a store, embed the Writer in another type. The
// goroutine of Run calls the methods. A method that blocks delays Run.
type Sink interface {
	// ResourceVersion returns the version that the sink is current to, from which Run resumes. If
	// it returns "", Run starts with a list.
	ResourceVersion() string
	// Take receives an item of a list, for which t is 0, or the object of an event. The metadata of
	// a deleted object has the resourceVersion of the deletion. m and object are valid during the
	// call. If the source has values in place of bytes, value is set and object is nil. If Take
	// returns an error, the reflector skips the object and counts it in Status.Skipped. After an
	// event, a list then follows, which may return the object intact. No list follows if the error
	// is a Refusal.
	Take(t wire.EventType, m *wire.Meta, object []byte, value any) error
	// DeleteNamesake deletes the stored object that has the same name as a new object that
	// Config.Keep does not want. The stored object is a different one, whose deletion event was
	// missed.
	DeleteNamesake(m *wire.Meta, object []byte) error
	// Flush makes the objects visible that Take received. The reflector calls it before each wait
	// for the network.
	Flush() (changes int)
	// Progress says that the objects that Take received are current to resourceVersion.
	Progress(resourceVersion string)
	// Coalesced says that the server coalesces the following changes, up to resourceVersion: it
	// sends one event for each key, deletions first. The reflector calls Progress again when it has
	// reached that version, or when a list has ended. It then calls Coalesced with "".
	Coalesced(resourceVersion string)

	// BeginReplace starts a list, or initial events. If rebase is set, the server has gone back in
	// time: a higher resourceVersion then does not make a stored object newer than a listed one.
	BeginReplace(rebase bool)
	// EndReplace says that the list is complete, and current to resourceVersion. Stored objects
	// that Take did not receive since BeginReplace no longer exist.
	EndReplace(resourceVersion string)
	// AbortReplace says that the list broke off. The sink deletes no object because of it.
	AbortReplace()

	// Err returns the error because of which the sink cannot be written any more, or nil. An error
	// ends Run.
	Err() error

	// ListRequested says that the reflector now requests a LIST, or a WATCH with initial events,
	// and will pass its state between the next BeginReplace and EndReplace. If another writer finds
	// a restore of the server after this call, the state may be older than that restore.
	ListRequested()
	// Outdated reports whether another writer of the same store has found, since this sink's last
	// state was requested, that the server went back. WhenOutdated sets the function that the other
	// writer's goroutine calls, once, when that happens; nil removes the function.
	Outdated() bool
	WhenOutdated(f func())
	// Behind reports whether a running reader does not keep up, and how many changes such readers
	// have read on average.
	Behind() (behind bool, read uint64)
}

// Refusal is an error of Sink.Take for an object that the sink would also refuse in a list.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return fmt.Sprintf("refused: %v", r.Err) }

// Unwrap returns the reason of the refusal.
func (r Refusal) Unwrap() error { return r.Err }
