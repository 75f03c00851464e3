package weir

import "github.com/weirproject/weir/internal/store"

// Memory is what an informer holds, by purpose, in bytes. Packed, Keys and Log are sums of what was
// asked of the allocator, which rounds up by about five per cent; the others are estimates.
type Memory struct {
	Objects    int   // number of objects
	Raw        int64 // what they would take as they came
	Packed     int64 // their packed bytes
	Keys       int64 // namespace/name
	Tree       int64 // the table: its nodes and one record per object
	Indexes    int64
	Decoded    int64 // decoded objects that are held
	Log        int64 // the change log with the old versions in it
	Cursors    int64 // what is kept for handlers that fell behind the log
	Deletions  int64 // which objects have gone, and when, for reflectors that lag
	Dictionary int64 // what objects are packed against
}

// Total returns the sum of all purposes.
func (m Memory) Total() int64 { return store.Memory(m).Total() }

// String returns a table of several lines: each purpose, its bytes, and its bytes for each object.
func (m Memory) String() string { return store.Memory(m).String() }
