// Package sim runs informers in worlds that are drawn from a seed, and checks what they do against
// a model that knows nothing of how they do it. Its checks are written from the contract of LIST
// and WATCH and from what Kubernetes' source does, never from the code under test.
//
//	go test ./internal/testing/sim                         500 seeds
//	go test ./internal/testing/sim -run Sim -seed 42       one of them, with a log, made as small as it can be and still fail
//	go test ./internal/testing/sim -run Sim -for 1h        new seeds for an hour
//	make mutants                                   break the engine in many ways; each must be noticed
//
// # The parts
//
// Package api has the model of etcd, every state that the objects of one resource ever had, and the
// API servers in front of it: each with a view of its own, speaking HTTP in memory, and the faults
// between them and their clients. A World (world.go) is all that happens, as data: servers,
// clients and their handlers, and steps, each at its time: writes, compactions, restores, other
// servers in the place of these, changes of the schema, restarts, faults. draw.go, drawfault.go,
// drawrelist.go, drawsiege.go and drawfrontend.go draw one from a seed; run.go, steps.go and
// rest.go execute it in virtual time (testing/synctest); shrink.go leaves out what a failing
// one does not need.
//
// What is run in it (informer.go): the native informer with several namespaces and selectors, of Go
// types, unstructured and metadata only; the drop-in with its options and factories; a native
// informer behind two watch caches between which it jumps, which package feed feeds like the
// proxy's, one of them perhaps from the other; and, as the control, client-go's own informer, whose
// known failures are listed in knownfailures.go.
//
// # What is checked
//
// At every step, of the events of a handler:
//
//   - order: of each key Added, then Updated from exactly what it was told before, then Deleted
//   - back: nothing older than what it was told before, unless the servers went back to it
//   - spurious-delete: no end of what never ended, nor, where nothing is in the way, of what has
//     only left one of several selectors
//   - scope: nothing outside of the scope
//   - skipped: each change, one by one, where nothing is in the way and the log is long enough
//   - object: bytes that a server wrote, and what they decode to
//   - after-removal: nothing after it was removed
//   - synced-early: a handler that says it has synced was told of every key that was there when it
//     began and ever since
//   - synced-late: a handler that was told of them all says so within a second
//
// At every step, of what is read and asked:
//
//   - read-back: no read goes back
//   - read: indexes are what their functions say of the same objects
//   - await: a reader that has waited for a resourceVersion reads nothing older
//   - unseen-end: a watch cache sends no end of an object that its client cannot have
//   - proven: a watch cache that is proven current has every write from before the proof
//   - behind: where nothing is in the way, the resourceVersion is that of the last change
//   - hammers: no informer sends requests without a pause
//
// Behind a front end that ends WATCHes before their time (unwatched.go):
//
//   - unwatched: an informer is without a WATCH for no longer than client-go's in the same world
//   - lists: nor does it list more often, but for small lists in place of watches that end at once
//
// At rest, a bounded time after the last fault:
//
//   - stale, stale-bytes: the store has the objects of the servers, byte for byte
//   - handler-stale: so has each handler
//   - progress: the resourceVersion is the servers'
//   - never-synced: all informers and handlers have synced
//   - err, err-nil: Err is nil exactly when nothing stands in the way
//   - rest: all that still holds a while later, and nothing is decoded, pending or in the log
//   - resync: each object was handed out once in each resync period, without bursts
//   - goroutines, deadlock: after the stop no goroutine is left
//
// Faults that never end, for a kind of request or for one resourceVersion, must be overcome by a
// LIST wherever one works (expect.go says what is asked when).
//
// # What is not
//
// What no protocol shows: a client that watches from a revision of a past era, when the present one
// has come as far (api/clientview.go), is excused until its next LIST, which the world then forces
// upon it. A form of LIST that is refused for ever while another works is checked only for pages
// and for answers that break off. With resourceVersions that cannot be compared, old events cannot
// be distinguished from new ones. 429 asks for patience and is no fault to overcome. HTTP itself
// (connections, TLS, HTTP/2), authentication, discovery, and writes are not here.
//
// # How far a seed decides
//
// Worlds, and the places where goroutines yield, follow from the seed; one processor runs them. The
// engine's own jitter, Go's map order and its scheduler's random choices do not. So a seed that
// failed may need some runs to fail again; -seed and the shrinker see to that.
package sim
