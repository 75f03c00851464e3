package reflector

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/wire"
)

// Sink is what a reflector writes to. A store's Writer is one. Owners who change objects before
// they are held, or control how a relist comes into a store, embed the Writer in a Sink of their
// own. The goroutine of Run calls the methods, which may block it.
type Sink interface {
	// ResourceVersion returns the version that the sink is current to: Run resumes there. "" is
	// none, and Run begins with a list.
	ResourceVersion() string
	// Take takes an item of a list, for which t is 0, or the object of an event. A deletion's
	// resourceVersion is its own. m and object are valid during the call; value is set, and object
	// nil, where the source has values in place of bytes. An object for which Take returns an error
	// is skipped and counted so, and after an event a list follows, which may have the object as it
	// is. None follows if the error is a Refusal.
	Take(t wire.EventType, m *wire.Meta, object []byte, value any) error
	// DeleteNamesake deletes the stored object that has the name of a new one that Config.Keep does
	// not want. The stored one is another object, whose deletion was not received.
	DeleteNamesake(m *wire.Meta, object []byte) error
	// Flush makes visible what was taken. It is called before each wait for the network.
	Flush() (changes int)
	// Progress says that what was taken is current to a resourceVersion.
	Progress(resourceVersion string)
	// Coalesced says that the server tells of the changes that follow, up to a resourceVersion, one
	// for each key, with ends first. There is no Progress until that is reached, or a list has ended,
	// and then Coalesced comes with "".
	Coalesced(resourceVersion string)

	// BeginReplace begins a list, or initial events. With rebase the server has gone back in time:
	// a stored object is not newer than a listed one because its resourceVersion is higher.
	BeginReplace(rebase bool)
	// EndReplace says that the list is complete, and current to resourceVersion. What was not taken
	// since BeginReplace is gone.
	EndReplace(resourceVersion string)
	// AbortReplace says that the list broke off. Nothing is gone because of it.
	AbortReplace()

	// Err returns why nothing can be written any more, and nil while it can. Its error ends Run.
	Err() error

	// ListRequested says that the LIST, or the WATCH with initial events, is requested now whose
	// state comes between the next BeginReplace and EndReplace. A restore of the server that another
	// writer finds from now on may be news to that state.
	ListRequested()
	// Outdated reports whether another writer of the same store has found, since this one was told
	// of a state, that the server went back. WhenOutdated has f called once when that becomes so, by
	// the goroutine of that writer; nil: nothing is called.
	Outdated() bool
	WhenOutdated(f func())
	// Behind reports whether a reader that is at work does not keep up, and how many changes such
	// readers have read in the mean.
	Behind() (behind bool, read uint64)
}

// Refusal is an error of Sink.Take for an object that the sink would refuse in a list as well.
type Refusal struct{ Err error }

func (r Refusal) Error() string { return fmt.Sprintf("refused: %v", r.Err) }

// Unwrap returns the reason.
func (r Refusal) Unwrap() error { return r.Err }
