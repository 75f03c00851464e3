// Package store holds the objects of one resource: one ordered, revisioned
// table of packed object bytes, its indexes, and a bounded log of its changes.
//
// Writers, one per reflector, put objects into it as the bytes that a server
// sent. Readers look at it through Get, through immutable snapshots in key
// order, or follow it with a Cursor each. Three things are apart from each other
// so that nobody waits for anybody:
//
//   - the table, a B+ tree copied on write: a writer prepares a batch (packs it,
//     reads its index values) and then holds the lock only to put it in place;
//   - the change log, a ring bounded in bytes, and the cursors on it: what it
//     drops unseen is kept for a cursor once per key;
//   - decoded objects: made by who reads them, shared, and let go when idle.
//
// Files: store.go, writer.go, batch.go, apply.go, replace.go, progress.go are the
// way in; object.go, layout.go, packqueue.go, identity.go an object in memory;
// snapshot.go, tree.go, index.go, addindex.go, dropindex.go, funcindex.go the way to look at
// it; log.go, cursor.go, backlog.go, deletions.go, dirty.go what has changed; decoded.go and
// decodedcache.go what is decoded; memory.go what it all takes; check.go the rules.
package store
