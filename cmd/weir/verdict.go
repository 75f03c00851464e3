package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/audit"
	"github.com/weirproject/weir/internal/doctor"
	"github.com/weirproject/weir/internal/quantity"
)

// verdict says which part of the logs a report covers. The JSON names are a promise.
type verdict struct {
	Complete bool     `json:"complete"` // all of the logs was read, and every client told apart
	Covers   string   `json:"covers"`
	Gaps     []string `json:"gaps,omitempty"` // sentences on what it does not cover
}

// newVerdict returns what the report on logs covers.
func newVerdict(r *doctor.Report, read audit.Counts) verdict {
	v := verdict{Gaps: skipped(read)}
	if r.OthersClients > 0 {
		v.Gaps = append(v.Gaps, fmt.Sprintf("Not told apart, and not judged: the clients of %s requests.", quantity.Count(r.Others.Requests)))
	}
	v.Complete = len(v.Gaps) == 0
	if r.Totals.Lists == 0 {
		v.Gaps = append(v.Gaps, "The log has no LISTs: the audit policy may leave them out.")
	}
	if r.Totals.Watches == 0 {
		v.Gaps = append(v.Gaps, "The log has no WATCHes: the audit policy may leave them out.")
	}
	v.Covers = fmt.Sprintf("events: %s, in lines: %s, from %s to %s UTC", quantity.Count(read.Events), quantity.Count(read.Lines),
		r.From.Format(reportTime), r.To.Format(reportTime))
	return v
}

// reportTime is how a report writes times.
const reportTime = "2006-01-02 15:04:05"

// nothing returns the sentence of a report without a finding. It acquits no client in what was
// not read.
func (v *verdict) nothing() string {
	if !v.Complete {
		return "Nothing stands out in what was read: " + v.Covers + ". That is not all, as said above, and the rest can hide a client that does."
	}
	return "Nothing stands out: no client costs much more than what it needs. " + v.covered()
}

// covered returns the sentence behind findings.
func (v *verdict) covered() string {
	if !v.Complete {
		return "That covers " + v.Covers + ". It is not all, as said above, and the rest can hide other clients."
	}
	return "That covers " + v.Covers + "."
}

// skipped returns sentences on what of the logs was not read, or nil if all was.
func skipped(read audit.Counts) (texts []string) {
	if read.Malformed > 0 {
		var causes []string
		for _, cause := range slices.Sorted(maps.Keys(read.Causes)) {
			causes = append(causes, fmt.Sprintf("%s: %s", cause, quantity.Count(read.Causes[cause])))
		}
		texts = append(texts, fmt.Sprintf("Skipped what is no event: %s (%s).", quantity.Count(read.Malformed), strings.Join(causes, "; ")))
	}
	if read.TooLong > 0 {
		texts = append(texts, fmt.Sprintf("Skipped events of more than %s without their objects: %s.", quantity.Bytes(audit.MaxLine),
			quantity.Count(read.TooLong)))
	}
	if read.Misdated > 0 {
		texts = append(texts, fmt.Sprintf("Skipped events whose time those around them contradict: %s.",
			quantity.Count(read.Misdated)))
	}
	for _, text := range read.Damaged {
		texts = append(texts, "Damaged, and not read to its end: "+text+".")
	}
	for _, text := range read.Missing {
		texts = append(texts, "Not read: "+text+".")
	}
	return texts
}
