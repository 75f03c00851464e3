// Package delivery hands the changes of a store to handlers, one cursor per handler.
//
// There is no queue between a store and its handlers. A handler is a cursor over the store's change
// log (see [store.Cursor]): while it keeps up it is told every change in order; when it falls
// behind the bounded log it is caught up by key, each key once, from the version that it saw last
// to the newest. So a handler that blocks for good costs at most one old version per distinct key,
// and costs nobody else anything: not the reader of the WATCH, not the other handlers.
//
// A [Registration] is one handler. It owns one goroutine, which ends when the registration's
// context does; the handler is only ever called from it, one event at a time. A resync is a sweep
// that the same goroutine makes over the key space at a constant rate: it makes no request and has
// no queue.
//
// The package answers kubernetes/client-go issues 1326 (pending notifications grow without bound),
// 902 and 382 (what a resync is).
package delivery
