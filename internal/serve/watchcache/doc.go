// Package watchcache serves GET, LIST and WATCH of the Kubernetes API out of a [store.Store], in
// protobuf and in JSON. Package apiserver adds routing and writes to it.
//
// A watcher is a cursor over the store's change log. A slow watcher therefore costs a position, and
// is not closed for being slow, unless one write to it takes five minutes, it takes its initial
// events at less than 32 KiB a second after the first minute, or its owner calls [Cache.ShedStuck]
// or [Cache.ShedLargest]. A watcher with an exact requirement (a namespace, name, field, label or
// shard) subscribes to the hub: at once if it begins with the state, or else once it has caught up.
// The hub reads each change once and wakes only the watchers that it concerns. An event that is not
// sent as it is stored, such as JSON made of protobuf, is encoded once for all watchers. A LIST
// walks a snapshot or an index and writes bytes. A label selector is evaluated once for each set of
// labels. Other indexes are built on demand, for requirements that keep coming.
//
// # Files
//
//   - cache.go: the entry points; list.go: LIST and GET; watch.go: WATCH; status.go: their errors
//   - resource.go: what is served; representation.go, table.go: how objects are written
//   - selector.go, queryplan.go, indexes.go: which objects are chosen
//   - event.go: what a watcher is sent; drain.go: how watches end
//   - hub.go, interest.go, subscription.go: which watchers a change concerns; heldchanges.go: what
//     waits for them; check.go: rules that always hold of that
//   - body.go, stream.go, encodecache.go, writedeadline.go, flushpacer.go: bytes to the client
//   - state.go, history.go: earlier states
//   - stats.go: counters, and which slow watchers are ended
package watchcache
