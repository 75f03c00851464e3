// Package store holds the objects of one resource. A [Store] is one ordered, revisioned table of
// packed object bytes, its indexes, and a bounded log of its changes.
//
// A [Writer] puts objects into the store as the bytes that a server sent; there is one for each
// reflector. Readers have three ways to look at a store. Get returns the newest version of one
// object. A [Snapshot] shows one moment, in key order. A [Cursor] follows the changes.
//
// Three parts are separate, so that no part waits for another:
//
//   - The table is a B+ tree, copied on write. Writers take turns to fill a batch: they pack the
//     objects and read their index values. Only to put the batch in place do they hold the lock
//     that readers take.
//   - The change log is a ring bounded in bytes. Cursors read it. If the log drops a change that a
//     cursor has not read, the cursor keeps it, in one entry per key.
//   - Readers decode objects. The decoded objects are shared, and dropped when idle.
//
// # Files
//
//   - Writing: store.go, writer.go, batch.go, packqueue.go, progress.go, errors.go. owners.go and
//     deletions.go decide between several writers.
//   - An object in memory: object.go, layout.go, identity.go.
//   - Reading a moment: snapshot.go, tree.go, index.go, addindex.go; funcindex.go and derived.go
//     for indexes by function.
//   - Following changes: change.go, log.go, cursor.go, backlog.go, dirty.go.
//   - Decoded objects: decoded.go, decodedcache.go, decodedlist.go, decodeeach.go; values.go for
//     handlers.
//   - Memory: memory.go. Invariants: check.go.
package store
