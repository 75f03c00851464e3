// Package delivery passes the changes of a store to handlers, with one cursor per handler.
//
// There is no queue between a store and its handlers. Each handler reads the store's change log
// with a cursor (see [store.Cursor]). A handler that keeps up receives every change in order. A
// handler that lags behind the bounded log receives each object once, from the version that it saw
// last to the newest one. Objects are identified by uid, so the handler receives no change from one
// object to another. A handler that blocks forever costs at most one old version per distinct key,
// and the newest 16,384 objects that were created and deleted before it received them. It delays
// neither the reader of the WATCH nor the other handlers.
//
// A [Registration] is one handler. It is called with one event at a time, by the [Workers] that the
// handlers of a store share: a few goroutines, and one more for each handler that blocks. They also
// run the resync, a sweep over the key space at a constant rate, without requests and without a
// queue.
//
// The package solves the problems of kubernetes/client-go issues 1326 (pending notifications grow
// without bound), 902 and 382 (the meaning of a resync).
package delivery
