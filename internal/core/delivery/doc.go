// Package delivery passes the changes of a store to handlers, with one cursor per handler.
//
// There is no queue between a store and its handlers. Each handler reads the store's change log
// with a cursor (see [store.Cursor]). A handler that keeps up receives every change in order. The
// log is bounded. A handler that lags behind the log receives one change per object, from the
// version that it received last to the newest one. Objects are identified by uid, so a handler
// never receives a change from one object to another object of the same name. For a handler that
// blocks forever, the store keeps at most one old version per distinct key. It also keeps the
// newest 16,384 objects that were created and deleted before the handler received them. Such a
// handler delays neither the reader of the WATCH nor the other handlers.
//
// A [Registration] is one handler. It is called with one event at a time, by the [Workers] that the
// handlers of a store share: a few goroutines, and one more for each handler that blocks. The
// workers also run the resync: a sweep over the keys of the store at a constant rate, without
// requests and without a queue.
//
// The package solves kubernetes/client-go issue 1326 (pending notifications grow without bound),
// and issues 902 and 382 (the meaning of a resync).
package delivery
