package store

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/checks"
)

// If checking is true, the store checks its state after each change, and ends the program if the
// state breaks a rule. Tests and the build tag invariants set it. The rules are in the comments of
// the fields, in the comment of backlog, and in owners.go.
var checking = checks.Invariants

// checkEntries is the maximum number of entries that one check reads. If a backlog is longer, only
// its counts are checked. An index that is longer, or a cursor with more unread changes, is not
// checked.
const checkEntries = 64

// must ends the program if ok is false. It reports the rule, and the state of the object to which
// the rule applies.
func must(ok bool, rule string, of interface{ state() string }, also ...int64) {
	if !ok {
		checks.Fail(fmt.Sprintf("store: %s: %s %d", rule, of.state(), also))
	}
}

// checkRecordsLocked checks the versions that the records of a batch have added to or removed from
// the table. The caller holds the store's lock.
func (s *Store) checkRecordsLocked(records []Change) {
	for i := range records {
		r := &records[i]
		if r.Old != nil {
			must(!r.Old.live(), "a version outside the table has an owner", r.Old)
		}
		if r.New != nil {
			held, _ := s.table.get(r.New.key)
			must(held == r.New, "a version that was put is not in the table", r.New)
			s.checkOwnersLocked(held)
		}
	}
}

// checkTableLocked checks all versions in the table, the table's byte counts, and the state of the
// writers. The caller holds the store's lock.
func (s *Store) checkTableLocked() {
	n, raw, packed, keys := 0, int64(0), int64(0), int64(0)
	s.table.ascend("", func(key string, o *Object) bool {
		must(key == o.key, "a version under another key", o)
		s.checkOwnersLocked(o)
		n, raw, packed, keys = n+1, raw+int64(o.size), packed+int64(len(o.packed)), keys+int64(len(key))
		return true
	})
	must(n == s.table.count && raw == s.raw && packed == s.packed && keys == s.keys, "the sums differ from the table",
		s, int64(n), raw, packed, keys)
	for w := range s.writers {
		must(w.serverGen <= s.serverGen, "a writer of a future server generation", s, int64(w.serverGen))
		for _, rv := range w.aboveProgress {
			must(rv > w.progress.rv || w.progress.serverGen != w.serverGen, "a version is not above its writer's progress", s, int64(rv), int64(w.progress.rv))
		}
	}
}

// state returns the store's state for the message of a failed check.
func (s *Store) state() string {
	return fmt.Sprintf("revision %d server generation %d objects %d raw %d packed %d keys %d", s.revision, s.serverGen, s.table.count, s.raw, s.packed, s.keys)
}

func (s *Store) checkOwnersLocked(o *Object) {
	owners := o.owners.Load()
	must(owners != 0, "a version in the table has no owner", o)
	must(o.puts&^owners == 0, "a version was put by a writer whose owner does not have it", o)
	must(o.marks&^owners == 0, "a version is marked by a writer whose owner does not have it", o)
	must(o.serverGen <= s.serverGen, "a version of a future server generation", o, int64(s.serverGen))
	must(o.revision > 0 && o.revision <= s.revision, "a version of a future revision", o, int64(s.revision))
}

// state returns the version's state for the message of a failed check.
func (o *Object) state() string {
	return fmt.Sprintf("%s rv %s revision %d owners %b puts %b marks %b server generation %d flags %b",
		o.key, o.ResourceVersion(), o.revision, o.owners.Load(), o.puts, o.marks, o.serverGen, o.flags)
}

// check checks the rules of a backlog. The caller holds the log's lock.
func (b *backlog) check() {
	must(b.n >= 0 && b.awaited >= 0 && b.awaited <= b.n, "a backlog's counts", b)
	must((b.n == 0) == (b.first == nil) && (b.n == 0) == (b.last == nil), "a backlog's list and its length", b)
	must(len(b.entries) <= b.n && (b.byUID || len(b.entries) == b.n), "a backlog's map and its list", b)
	must(b.n > 0 || b.bytes == 0, "an empty backlog uses memory", b)
	must(b.goneLeft >= 0 && b.goneLeft <= min(len(b.gone), maxGone) && (b.goneLeft == 0) == (b.gone == nil), "a backlog's objects that were created and deleted", b, int64(b.goneLeft), int64(len(b.gone)))
	if b.n > checkEntries {
		return
	}
	n, awaited, listed, bytes, rev := 0, 0, 0, int64(0), uint64(0)
	var prev *backlogEntry
	for e := b.first; e != nil; prev, e = e, e.next {
		must(e.prev == prev && n < b.n, "a backlog's links", b)
		if e.Awaited {
			awaited++
		} else {
			must(e.Revision >= rev, "a backlog is out of order", b, int64(e.Revision), int64(rev))
			rev = e.Revision
		}
		if o := e.newest(); o != nil && b.entries[o.key] == e {
			listed++
		}
		n, bytes = n+1, bytes+e.cost()
	}
	must(prev == b.last && n == b.n && awaited == b.awaited && listed == len(b.entries) && bytes == b.bytes,
		"a backlog's sums", b, int64(n), int64(awaited), int64(listed), bytes)
}

// newest returns the newest version in the entry, or nil.
func (e *backlogEntry) newest() *Object {
	for _, o := range [...]*Object{e.New, e.Old, e.last} {
		if o != nil {
			return o
		}
	}
	return nil
}

// state returns the backlog's state for the message of a failed check.
func (b *backlog) state() string {
	return fmt.Sprintf("n %d entries %d awaited %d awaiting %d bytes %d byUID %v", b.n, len(b.entries), b.awaited, b.awaiting, b.bytes, b.byUID)
}

// check checks a cursor and its backlog. The caller holds the log's lock.
func (c *Cursor) check() {
	c.backlog.check()
	l := c.log
	must(c.closed || c.passed >= l.base && c.passed <= c.pos && c.pos <= l.next(), "a cursor is outside the log", c)
	must(c.counts || c.backlog.awaiting == 0, "a cursor that does not count changes awaits some", c)
	if c.closed || !c.counts || l.next()-c.pos > checkEntries {
		return
	}
	awaiting := c.backlog.awaited
	for rev := c.pos; rev < l.next(); rev++ {
		if l.at(rev).Awaited {
			awaiting++
		}
	}
	must(awaiting == c.backlog.awaiting, "a cursor awaits a change that does not exist", c, int64(awaiting))
}

// state returns the cursor's state for the message of a failed check.
func (c *Cursor) state() string {
	return fmt.Sprintf("at %d of %d to %d, counts %v, backlog: %s", c.pos, c.log.base, c.log.next(), c.counts, c.backlog.state())
}

// state returns the log's state for the message of a failed check.
func (l *changeLog) state() string {
	return fmt.Sprintf("%d to %d, %d cursors", l.base, l.next(), len(l.cursors))
}

// check checks all cursors. The caller holds the log's lock.
func (l *changeLog) check() {
	atBase := int64(0)
	for c := range l.cursors {
		if c.check(); c.passed == l.base {
			atBase++
		}
	}
	must(atBase == l.atBase.Load(), "a log counts the cursors at its base wrongly", l, atBase, l.atBase.Load())
}

// check checks the byte count of an index by function. The caller holds the index's lock.
func (x *funcIndex) check() {
	if len(x.byKey) > checkEntries {
		return
	}
	bytes := int64(0)
	for _, e := range x.byKey {
		bytes += e.footprint()
	}
	must(bytes == x.entryBytes, "an index's sum differs from its entries", x, bytes)
}

// state returns the index's state for the message of a failed check.
func (x *funcIndex) state() string {
	return fmt.Sprintf("index %q at %d, %d keys, bytes %d", x.name, x.upTo, len(x.byKey), x.entryBytes)
}
