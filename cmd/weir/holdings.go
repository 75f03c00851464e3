package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/quantity"
	"github.com/weirproject/weir/internal/rusage"
)

// holdings are what is held after a sync, and what it took.
type holdings struct {
	resource string
	weir.Stats
	elapsed time.Duration
}

// heldObject is what --once -o json prints. Its names are a promise.
type heldObject struct {
	Resource        string  `json:"resource"`
	Objects         int     `json:"objects"`
	WireBytes       int64   `json:"wireBytes"` // received, compressed if they came so
	HeldBytes       int64   `json:"heldBytes"` // in memory, for all purposes
	SyncSeconds     float64 `json:"syncSeconds"`
	Requests        int64   `json:"requests"` // of the informer
	ResourceVersion string  `json:"resourceVersion"`
	PeakRSSBytes    int64   `json:"peakRSSBytes"` // of this process
}

func (h holdings) object() heldObject {
	return heldObject{
		Resource:        h.resource,
		Objects:         h.Objects,
		WireBytes:       h.WireBytes,
		HeldBytes:       h.Memory.Total(),
		SyncSeconds:     h.elapsed.Seconds(),
		Requests:        h.Requests,
		ResourceVersion: h.ResourceVersion,
		PeakRSSBytes:    rusage.PeakRSS(),
	}
}

// String returns one line that says what is held and what it took.
func (h holdings) String() string {
	return fmt.Sprintf("%s %s in sync after %s: %s on the wire, %s held (%s), %s", quantity.Count(int64(h.Objects)), h.resource,
		quantity.Seconds(h.elapsed.Seconds()), quantity.Bytes(h.WireBytes), quantity.Bytes(h.Memory.Total()), purposes(h.Memory),
		plural(h.Requests, "request"))
}

// purposes returns what memory is held for, without the purposes that take none.
func purposes(m weir.Memory) string {
	var parts []string
	for _, p := range []struct {
		name  string
		bytes int64
	}{
		{"packed", m.Packed}, {"keys", m.Keys}, {"tree", m.Tree}, {"indexes", m.Indexes}, {"decoded", m.Decoded},
		{"log", m.Log}, {"cursors", m.Cursors}, {"dictionary", m.Dictionary},
	} {
		if p.bytes > 0 {
			parts = append(parts, p.name+" "+quantity.Bytes(p.bytes))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// plural returns a number of things as text.
func plural(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return quantity.Count(n) + " " + thing
}
