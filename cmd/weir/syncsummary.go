package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/process"
)

// syncSummary is the informer's contents after a sync, and the cost of the sync.
type syncSummary struct {
	resource string
	weir.Stats
	elapsed time.Duration
}

// syncReport is the output of --once -o json. Its names are stable.
type syncReport struct {
	Resource        string  `json:"resource"`
	Objects         int     `json:"objects"`
	WireBytes       int64   `json:"wireBytes"` // received, compressed if they were sent so
	HeldBytes       int64   `json:"heldBytes"` // in memory, for all purposes
	SyncSeconds     float64 `json:"syncSeconds"`
	Requests        int64   `json:"requests"` // of the informer
	ResourceVersion string  `json:"resourceVersion"`
	PeakRSSBytes    int64   `json:"peakRSSBytes"` // of this process
}

func (s syncSummary) report() syncReport {
	return syncReport{
		Resource:        s.resource,
		Objects:         s.Objects,
		WireBytes:       s.WireBytes,
		HeldBytes:       s.Memory.Total(),
		SyncSeconds:     s.elapsed.Seconds(),
		Requests:        s.Requests,
		ResourceVersion: s.ResourceVersion,
		PeakRSSBytes:    process.PeakRSS(),
	}
}

// String returns one line about the contents and the cost.
func (s syncSummary) String() string {
	return fmt.Sprintf("%s %s in sync after %s: %s on the wire, %s held (%s), %s", humanize.Count(int64(s.Objects)), s.resource,
		humanize.Seconds(s.elapsed.Seconds()), humanize.Bytes(s.WireBytes), humanize.Bytes(s.Memory.Total()), purposes(s.Memory),
		plural(s.Requests, "request"))
}

// purposes returns the memory by purpose, without unused purposes.
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
			parts = append(parts, p.name+" "+humanize.Bytes(p.bytes))
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
	return humanize.Count(n) + " " + thing
}
