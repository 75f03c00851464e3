package weir

import (
	"time"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
)

// Stats are counts and sizes of an informer at one moment.
type Stats struct {
	Objects         int
	ResourceVersion string // everything up to this version has been received
	Requests        int64  // sent to the server, failed ones included
	WireBytes       int64  // received over the wire
	BodyBytes       int64  // received, after decompression
	Memory          Memory
	DecodedHits     int64          // reads of decoded objects that found the object decoded
	DecodedMisses   int64          // reads that decoded it
	Handlers        []HandlerStats // in no order
}

// Stats returns the informer's counts and sizes. It can be called at any time, also before and
// after Run.
func (i *informer[T]) Stats() Stats {
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

// Memory is an informer's memory by purpose, in bytes. Packed, Keys and Log are sums of allocated
// sizes, which the allocator rounds up by about five per cent; the others are estimates.
type Memory struct {
	Objects    int   // number of objects
	Raw        int64 // size of the objects as received
	Packed     int64 // their packed bytes
	Keys       int64 // namespace/name
	Tree       int64 // the table: its nodes and one record per object
	Indexes    int64
	Decoded    int64 // decoded objects in the cache
	Log        int64 // the change log with the old versions in it
	Cursors    int64 // kept for handlers that lag behind the log
	Deletions  int64 // versions of deleted objects, for reflectors that lag
	Dictionary int64 // data that objects are packed against
}

// Total returns the sum of all purposes.
func (m Memory) Total() int64 { return store.Memory(m).Total() }

// String returns a table of several lines: each purpose, its bytes, and its bytes per object.
func (m Memory) String() string { return store.Memory(m).String() }

// HandlerStats are one handler's counts.
type HandlerStats struct {
	Name    string
	Handled uint64        // events passed to the handler, resyncs included
	Panics  uint64        // events whose handling panicked
	Lag     uint64        // changes that the handler has not seen yet
	Pending int           // keys kept for the handler because it lags behind the change log
	Busy    time.Duration // how long the current call has run; 0 outside a call
}

func handlerStats(r *delivery.Registration) HandlerStats {
	s := r.Stats()
	return HandlerStats{Name: r.Name(), Handled: s.Handled, Panics: s.Panics, Lag: s.Lag, Pending: s.Pending, Busy: s.Busy}
}
