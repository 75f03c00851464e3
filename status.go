package weir

import (
	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/store"
)

// Status is the state of one reflector of an informer: what it is doing, since when, and what went wrong last.
type Status = engine.Status

// Stats are counts and sizes of an informer at one moment.
type Stats struct {
	Objects         int
	ResourceVersion string // everything up to here is held
	Requests        int64  // made to the server, failed ones included
	WireBytes       int64  // received, as they came over the wire
	BodyBytes       int64  // received, after decompression
	Memory          store.Memory
	Handlers        []HandlerStats
}

// Stats can be called at any time.
func (i *Informer[T]) Stats() Stats {
	s := Stats{
		Objects:         i.store.Len(),
		ResourceVersion: i.store.ResourceVersion(),
		Requests:        i.stats.Requests.Load(),
		WireBytes:       i.stats.WireBytes.Load(),
		BodyBytes:       i.stats.BodyBytes.Load(),
		Memory:          i.store.Memory(),
	}
	for _, r := range i.engine.Handlers() {
		s.Handlers = append(s.Handlers, HandlerStats{Name: r.Name(), Stats: r.Stats()})
	}
	return s
}
