// Package watchcache speaks the read half of the Kubernetes API out of a [store.Store]: GET, LIST and WATCH, in protobuf and in
// JSON. The embedded API server (package apiserver) adds routing and writes to it.
//
// A watcher is a cursor over the store's change log, so a slow one costs a position and is never closed for its slowness. One whose
// selector asks for something exact (a namespace, a name, a field, a label) goes over to the hub as soon as it has caught up: that reads
// each change once for all of them and wakes only whom it concerns. What several watchers get is encoded once. A LIST walks a snapshot
// and writes bytes, or looks into an index; what selectors keep naming gets one.
//
// Files: cache.go is the way in, list.go and watch.go answer; selector.go, label.go, plan.go and indexes.go choose objects; follow.go,
// event.go, hub.go, route.go and subscription.go follow changes; form.go, shared.go, stream.go, body.go and pace.go bring them to the
// client; state.go and token.go are the past.
package watchcache
