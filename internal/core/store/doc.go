// Package store stores the objects of one resource. A [Store] is one ordered, revisioned table of
// packed object bytes, its indexes, and a bounded log of its changes.
//
// A [Writer] puts objects into the store as the bytes that a server sent; each reflector has one
// writer. Readers can read a store in three ways. Get returns the newest version of one object. A
// [Snapshot] shows all objects at one moment, in key order. A [Cursor] returns the changes.
//
// Three parts are separate, so that none of them waits for another:
//
//   - The table is a B+ tree, copied on write. Writers take turns to fill a batch: they pack the
//     objects and read their index values. Readers use a second lock. A writer holds this lock only
//     while it applies the batch.
//   - The change log is bounded in bytes, and cursors read it. If the log drops a change that a
//     cursor has not read, the cursor stores it, in one entry per object.
//   - Readers decode objects. The decoded objects are shared, and dropped when idle.
//
// # Files
//
//   - Writing: store.go, writer.go, batch.go, relist.go, errors.go. owners.go combines the
//     states of several writers.
//   - An object in memory: object.go.
//   - Reading one moment: snapshot.go, tree.go, index.go, addindex.go; funcindex.go and derived.go
//     for indexes by function.
//   - Following changes: log.go, cursor.go, backlog.go, dirty.go.
//   - Decoded objects: decoded.go, decodedcache.go, decodedlist.go, decodeeach.go.
//   - Memory: memory.go. Invariants: check.go.
package store
