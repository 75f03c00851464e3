// Package watchcache serves GET, LIST and WATCH of the Kubernetes API from a [store.Store], in
// protobuf and in JSON. Package apiserver adds routing and writes.
//
// Most watchers wait at a cursor in the store's change log, so a slow watcher costs little. With
// the default Config, the cache does not close a slow watcher, except in three cases: one write to
// it blocks for five minutes; it reads its initial events slower than 32 KiB per second after the
// first minute; or the cache's owner calls [Cache.Shed].
//
// If a watcher's selector has an exact requirement (a namespace, name, field, label or shard), the
// watcher has no cursor of its own: it subscribes to the hub. The hub reads each change once, and
// wakes only the watchers whose requirement the changed object meets. A watcher that starts with
// the current state subscribes immediately. A watcher that resumes has a cursor until it has caught
// up, and then subscribes.
//
// If an event's encoding differs from the stored one, such as JSON from protobuf, the cache encodes
// the event once for all watchers. A LIST reads a snapshot or an index and writes stored bytes.
// With Config.LabelSets, the cache evaluates a label selector once per label set. It builds other
// indexes on demand, for requirements that clients use repeatedly.
//
// # Files
//
//   - cache.go: the entry points; list.go: LIST and GET; watch.go: WATCH; status.go: their errors
//   - resource.go: the served resource; representation.go, table.go: how objects are written
//   - selector.go, queryplan.go, indexes.go: which objects match, and how they are found
//   - event.go: which events a watcher sends; drain.go: how watches end
//   - hub.go, interest.go, subscription.go: which watchers need a change; heldchanges.go: the
//     changes that wait for watchers; check.go: invariants of the hub
//   - body.go, stream.go, encodecache.go, writedeadline.go, flushpacer.go: bytes to the client
//   - state.go, history.go: earlier states
//   - stats.go: counters, and the choice of slow watchers to end
package watchcache
