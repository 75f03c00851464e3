package weir

import (
	"time"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
)

// Stats are counts and sizes of an informer at one moment. Counts start when the informer is
// created.
type Stats struct {
	Objects         int
	ResourceVersion string // the informer has received everything up to this version
	Requests        int64  // sent to the server, including failed ones
	WireBytes       int64  // received bytes, before decompression
	BodyBytes       int64  // received bytes, after decompression
	Memory          Memory
	DecodedHits     int64          // reads that found the object decoded
	DecodedMisses   int64          // reads that had to decode the object
	Handlers        []HandlerStats // in no order
}

// Stats returns the informer's counts and sizes. It may be called at any time, also before and
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

// Memory is an informer's memory by purpose, in bytes. Packed, Keys and Log are sums of requested
// sizes, which the allocator rounds up by about five per cent. The other purposes are estimates.
type Memory struct {
	Objects    int   // number of objects
	Raw        int64 // size of the objects before packing; not memory
	Packed     int64 // packed bytes of the objects
	Keys       int64 // the objects' keys
	Tree       int64 // the table of objects: nodes and one record per object
	Indexes    int64
	Decoded    int64 // decoded objects
	Log        int64 // the change log, including old versions
	Cursors    int64 // changes that the log dropped, kept for handlers that lag
	Deletions  int64 // records of deletions, so that no lagging reflector adds a deleted object again
	Dictionary int64 // sample objects that other objects are packed against
}

// Total returns the sum of all purposes. It does not include Raw.
func (m Memory) Total() int64 { return store.Memory(m).Total() }

// String returns a table of several lines: each purpose, its bytes, and its bytes per object.
func (m Memory) String() string { return store.Memory(m).String() }

// HandlerStats are one handler's counts.
type HandlerStats struct {
	Name    string
	Handled uint64        // events passed to the handler, including resyncs
	Panics  uint64        // calls that panicked
	Lag     uint64        // changes that the handler has not received yet
	Pending int           // objects kept for the handler because it lags behind the change log
	Busy    time.Duration // how long the active call has run; 0 if none is active
}

func handlerStats(r *delivery.Registration) HandlerStats {
	s := r.Stats()
	return HandlerStats{Name: r.Name(), Handled: s.Handled, Panics: s.Panics, Lag: s.Lag, Pending: s.Pending, Busy: s.Busy}
}
