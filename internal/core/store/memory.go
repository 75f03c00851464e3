package store

import (
	"fmt"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
)

// Memory is the memory of a store by purpose, in bytes. Packed, Keys and Log are exact sums of the
// requested bytes; the allocator rounds these up by about five per cent. The other fields are
// estimates.
type Memory struct {
	Objects    int   // number of objects
	Raw        int64 // the size of the objects as received
	Packed     int64 // the packed bytes of the objects
	Keys       int64 // namespace/name
	Tree       int64 // the table: its nodes and one record per object
	Indexes    int64
	Decoded    int64 // decoded objects that the store refers to
	Log        int64 // the change log with its old versions, and the staged changes of relists
	Cursors    int64 // the backlogs of cursors that fell behind the log
	Deletions  int64 // the remembered deletions
	Dictionary int64
}

// Purpose is one of the purposes of Memory.
type Purpose struct {
	Name  string // in lower case
	Bytes int64
}

// Purposes returns all purposes. Raw is not included.
func (m Memory) Purposes() []Purpose {
	return []Purpose{
		{"packed", m.Packed}, {"keys", m.Keys}, {"tree", m.Tree}, {"indexes", m.Indexes}, {"decoded", m.Decoded},
		{"log", m.Log}, {"cursors", m.Cursors}, {"deletions", m.Deletions}, {"dictionary", m.Dictionary},
	}
}

// Total returns the sum of all purposes.
func (m Memory) Total() (sum int64) {
	for _, p := range m.Purposes() {
		sum += p.Bytes
	}
	return sum
}

// String returns a small table of purpose, bytes, and bytes for each object.
func (m Memory) String() string {
	var b strings.Builder
	row := func(purpose string, bytes int64) {
		fmt.Fprintf(&b, "%-10s %14s", purpose, humanize.Count(bytes))
		if m.Objects > 0 {
			fmt.Fprintf(&b, " %10s", humanize.Count(bytes/int64(m.Objects)))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%-10s %14s", "", "bytes")
	if m.Objects > 0 {
		fmt.Fprintf(&b, " %10s", "an object")
	}
	b.WriteByte('\n')
	for _, p := range m.Purposes() {
		row(p.Name, p.Bytes)
	}
	row("total", m.Total())
	fmt.Fprintf(&b, "%s objects, %s bytes as received\n", humanize.Count(int64(m.Objects)), humanize.Count(m.Raw))
	return b.String()
}

// Memory returns the store's memory by purpose. It takes the locks briefly, one after another, so
// the figures may differ by a few changes. For an index by function, Memory returns the size after
// the last query. Memory is safe for concurrent use.
func (s *Store) Memory() Memory {
	s.mu.RLock()
	m := Memory{
		Objects: s.table.count,
		Raw:     s.raw,
		Packed:  s.packed,
		Keys:    s.keys,
		Tree:    s.table.footprint(24) + int64(s.table.count)*objectOverhead,
	}
	m.Deletions = s.deletions.footprint()
	for _, x := range s.byteIndexes.indexes {
		m.Indexes += x.footprint()
	}
	funcs := make([]*funcIndex, 0, len(s.funcs))
	for _, x := range s.funcs {
		funcs = append(funcs, x)
	}
	s.mu.RUnlock()
	for _, x := range funcs {
		m.Indexes += x.footprint()
	}
	listed := s.list.size.Load()
	m.Decoded = s.decoder.cache.footprint(listed*decodedFactor*m.Raw/int64(max(m.Objects, 1))) + listed*perListed
	m.Log, m.Cursors = s.log.footprint()
	m.Log += s.staged.Load()
	m.Dictionary = s.packer.Size()
	return m
}

// CursorBytes returns Memory.Cursors alone. It is cheap, and safe for concurrent use.
func (s *Store) CursorBytes() int64 {
	_, cursors := s.log.footprint()
	return cursors
}

// Bytes returns the memory of the cursor's backlog, which is a part of Memory.Cursors. It is safe
// for concurrent use.
func (c *Cursor) Bytes() int64 {
	c.log.mu.Lock() // Next changes it with the lock held for reading
	defer c.log.mu.Unlock()
	return c.backlog.bytes
}

// LogStart returns the revision of the oldest change in the log, or of the next change if the log
// is empty. For this change and all later ones, the versions before and after are still in the log
// or in the table. LogStart is safe for concurrent use.
func (s *Store) LogStart() uint64 {
	s.log.mu.RLock()
	defer s.log.mu.RUnlock()
	return s.log.base
}

// DecodedReads returns how many reads of decoded objects found a decoded value (hits), and how many
// had to decode the object (misses). It is safe for concurrent use.
func (s *Store) DecodedReads() (hits, misses int64) {
	return s.decoder.cache.hits.Load(), s.decoder.cache.misses.Load()
}
