// Package sim runs informers in simulated worlds, which it draws at random from seeds, and compares
// what the informers do with a model of etcd. The checks are derived from the contract of LIST and
// WATCH and from Kubernetes' source, not from the code under test, and the model does not use that
// code.
//
//	go test ./internal/testing/sim                         500 seeds
//	go test ./internal/testing/sim -run Sim -seed 42       one, with a log; shrinks a failing world
//	go test ./internal/testing/sim -run Sim -for 1h        new seeds for an hour
//	make mutants                                   break the engine; the tests must notice
//
// # The parts
//
// Package api contains the model of etcd, which stores every past state of the objects of one
// resource. It also contains the simulated API servers, which serve HTTP in memory, and injects the
// faults between servers and clients.
//
// A World (world.go) describes one run as data: its servers, its clients and their handlers, and
// its steps. Each step has a time. A step is, for example, a write, a compaction, a restore, a
// restart or a fault. draw.go, drawfault.go, drawrelist.go, drawsiege.go and drawfrontend.go draw a
// World from a seed. run.go, steps.go and rest.go execute it in virtual time (testing/synctest).
// shrink.go removes the parts of a failing World that are not necessary for the failure.
//
// informer.go lists the implementations that a World can run: the native informer, with several
// namespaces and selectors, for Go types, unstructured objects or metadata; the drop-in with its
// options and factories; and a native informer that switches between two watch caches. Package feed
// fills these caches as it fills the proxy's, and one cache may receive its data from the other.
// For comparison, some Worlds run client-go's own informer. knownfailures.go lists the checks that
// client-go's informer fails.
//
// # What is checked
//
// At every step, for the events that a handler receives:
//
//   - order: for each key the handler receives Added, then Updated from exactly the object that it
//     received last, then Deleted
//   - back: no object is older than the last one that the handler received for the key, unless the
//     servers went back to it
//   - spurious-delete: an object that did not end is not deleted; in a calm world (World.Calm),
//     neither is an object that has left only one of several selectors
//   - scope: no object is outside the handler's scope
//   - skipped: in a calm world with a long enough log, the handler receives each change
//   - object: an object's bytes are those that a server wrote, and its decoded form matches them
//   - after-removal: a removed handler receives no events
//   - synced-early: a handler that has synced has received every key that has existed since the
//     handler started
//   - synced-late: a handler that has received all these keys syncs within a second
//
// At every step, for reads and for requests:
//
//   - read-back: no read returns an older version than the read before
//   - read: an index returns exactly the objects that its function selects
//   - await: a reader that has waited for a resourceVersion reads no older state
//   - unseen-end: a watch cache sends no deletion of an object that its client cannot have
//   - proven: a watch cache that has proven that it is current has every write from before the
//     proof
//   - behind: in a calm world, the informer soon reaches the resourceVersion of the last change
//   - hammers: no informer sends requests without a pause
//
// In worlds with a front end that ends WATCHes early (unwatched.go):
//
//   - unwatched: no informer is without a WATCH for longer than client-go's in the same world
//   - lists: no informer lists more often than client-go's, except that it may replace watches that
//     end immediately by some small lists
//
// At rest, a limited time after the last fault:
//
//   - stale, stale-bytes: the store has the objects of the servers, byte for byte
//   - handler-stale: each handler has received the same objects
//   - progress: the informer's resourceVersion is that of the servers
//   - never-synced: all informers and handlers have synced
//   - err, err-nil: Err is nil if no fault remains, and not nil if a fault blocks the informer
//   - rest: the other checks still pass after a pause, and the informer has no decoded objects,
//     pending events or log entries
//   - resync: each handler received each object once per resync period, without bursts
//   - goroutines, deadlock: no goroutine is left after the stop
//
// Some faults never end, for one kind of request or for one resourceVersion. If some form of LIST
// works, an informer must then recover with it. expect.go decides what the checks require.
//
// # What is not checked
//
// The checks exclude these situations:
//
//   - A client may watch from a revision of a past era when the present era has reached the same
//     revision (api/clientview.go). The client cannot detect that. The checks accept any state
//     until the client's next LIST, which the run then forces.
//   - The servers may refuse one form of LIST forever while another form works. The checks then
//     require a recovery only if pages fail, or if responses end before they are complete.
//   - If resourceVersions cannot be compared, a client cannot distinguish old events from new ones.
//   - 429 asks the client to wait, so the client need not recover from it.
//
// HTTP itself (connections, TLS, HTTP/2), authentication, discovery and writes by clients are not
// part of the simulation.
//
// # How far a seed determines a run
//
// The seed determines the World, the jitter of backoffs and where goroutines yield, and one
// processor runs all goroutines. The seed does not determine other random numbers of the engine,
// the order of Go maps and the random choices of Go's scheduler. A seed that failed may therefore
// need several runs to fail again; -seed and the shrinker repeat runs for that reason.
package sim
