// Package store holds the objects of one resource. A [Store] is one ordered, revisioned table of
// packed object bytes, its indexes, and a bounded log of its changes.
//
// A [Writer] puts objects into the store as the bytes that a server sent; there is one for each
// reflector. Readers have three ways to look at a store. Get returns the newest version of one
// object. A [Snapshot] shows one moment, in key order. A [Cursor] follows the changes.
//
// Three parts are apart from each other, so that nobody waits for anybody:
//
//   - The table is a B+ tree, copied on write. A writer packs a batch and reads its index values
//     first, and then holds the lock only to put the batch in place.
//   - The change log is a ring bounded in bytes. Cursors read it. What the log drops before a
//     cursor has seen it is kept for that cursor, in one entry per key.
//   - Decoded objects are made by whoever reads them. They are shared, and let go of when idle.
//
// # Files
//
//   - The way in: store.go, writer.go, value.go, batch.go, apply.go, replace.go, progress.go,
//     errors.go; owners.go and deletions.go decide between several writers.
//   - An object in memory: object.go, layout.go, packqueue.go, identity.go, raw.go.
//   - The way to look at it: snapshot.go, tree.go, index.go, addindex.go, dropindex.go;
//     funcindex.go, funcvalues.go, indexhistory.go, indexedversions.go and derived.go for indexes
//     by function.
//   - What has changed: log.go, cursor.go, signal.go, backlog.go, dirty.go.
//   - What is decoded: decoded.go, decodedcache.go, decodedhandlers.go, decodedlist.go,
//     decodeeach.go.
//   - What it all takes: memory.go. The rules: check.go.
package store
