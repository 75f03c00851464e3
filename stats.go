package weir

import (
	"time"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/store"
)

// Stats are counts and sizes of an informer at one moment.
type Stats struct {
	Objects         int
	ResourceVersion string // everything up to here is held
	Requests        int64  // made to the server, failed ones included
	WireBytes       int64  // received, as they came over the wire
	BodyBytes       int64  // received, after decompression
	Memory          Memory
	DecodedHits     int64          // reads of decoded objects that found the object decoded
	DecodedMisses   int64          // and those that decoded it
	Handlers        []HandlerStats // in no order
}

// Stats returns the informer's counts and sizes. It can be called at any time, before Run and after
// it too.
func (i *Informer[T]) Stats() Stats {
	s := Stats{
		Objects:         i.store.Len(),
		ResourceVersion: i.store.ResourceVersion(),
		Requests:        i.stats.Requests.Load(),
		WireBytes:       i.stats.WireBytes.Load(),
		BodyBytes:       i.stats.BodyBytes.Load(),
		Memory:          Memory(i.store.Memory()),
	}
	s.DecodedHits, s.DecodedMisses = i.store.DecodedReads()
	for _, r := range i.engine.Handlers() {
		s.Handlers = append(s.Handlers, handlerStats(r))
	}
	return s
}

// Memory is what an informer holds, by purpose, in bytes. Packed, Keys and Log are sums of what was
// asked of the allocator, which rounds up by about five per cent; the others are estimates.
type Memory struct {
	Objects    int   // number of objects
	Raw        int64 // size of the objects as received
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

// HandlerStats tell how a handler is doing.
type HandlerStats struct {
	Name    string
	Handled uint64        // events handed to the handler, resyncs included
	Panics  uint64        // events whose handling panicked
	Lag     uint64        // changes that the handler has not seen yet
	Pending int           // keys that are kept for the handler because it fell behind the change log
	Busy    time.Duration // how long the handler has been in its present call; 0 when it is not in one
}

func handlerStats(r *delivery.Registration) HandlerStats {
	s := r.Stats()
	return HandlerStats{Name: r.Name(), Handled: s.Handled, Panics: s.Panics, Lag: s.Lag, Pending: s.Pending, Busy: s.Busy}
}
