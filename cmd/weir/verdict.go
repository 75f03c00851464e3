package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// verdict describes which part of the logs a report covers. The JSON names are stable.
type verdict struct {
	Complete bool     `json:"complete"` // all logs were read, and each client was counted separately
	Covers   string   `json:"covers"`
	Gaps     []string `json:"gaps,omitempty"` // sentences about what the report does not cover
}

// newVerdict returns the verdict for a report and the counts of its logs.
func newVerdict(r *doctor.Report, read evidence.Counts) verdict {
	v := verdict{Gaps: skipped(read)}
	if r.OthersClients > 0 {
		v.Gaps = append(v.Gaps, fmt.Sprintf("Doctor counted the clients of %s requests together, and did not judge them.", humanize.Count(r.Others.Requests)))
	}
	v.Complete = len(v.Gaps) == 0
	if r.Totals.Lists == 0 {
		v.Gaps = append(v.Gaps, "The log has no LISTs: the audit policy may leave them out.")
	}
	if r.Totals.Watches == 0 {
		v.Gaps = append(v.Gaps, "The log has no WATCHes: the audit policy may leave them out.")
	}
	v.Covers = fmt.Sprintf("events: %s, in lines: %s, from %s to %s UTC", humanize.Count(read.Events), humanize.Count(read.Lines),
		r.From.Format(reportTime), r.To.Format(reportTime))
	return v
}

// reportTime is the format of times in a report.
const reportTime = "2006-01-02 15:04:05"

// nothing returns the sentence for a report without findings. If parts of the logs were not read,
// the sentence says that a client in these parts may still be a problem.
func (v *verdict) nothing() string {
	if !v.Complete {
		return "No finding in the part that doctor read: " + v.Covers + ". Other parts are missing, as stated below, and may contain a client that costs more than it needs to."
	}
	return "No finding: no client costs much more than it needs to. " + v.covered()
}

// covered returns the sentence that follows the findings.
func (v *verdict) covered() string {
	if !v.Complete {
		return "That covers " + v.Covers + ". Other parts are missing, as stated below, and may contain other clients."
	}
	return "That covers " + v.Covers + "."
}

// skipped returns sentences about the parts of the logs that were not read, or nil.
func skipped(read evidence.Counts) (texts []string) {
	if read.Malformed > 0 {
		var causes []string
		for _, cause := range slices.Sorted(maps.Keys(read.Causes)) {
			causes = append(causes, fmt.Sprintf("%s: %s", cause, humanize.Count(read.Causes[cause])))
		}
		texts = append(texts, fmt.Sprintf("Skipped lines and objects that are not events: %s (%s).", humanize.Count(read.Malformed), strings.Join(causes, "; ")))
	}
	if read.TooLong > 0 {
		texts = append(texts, fmt.Sprintf("Skipped events of more than %s without their objects: %s.", humanize.Bytes(evidence.MaxLine),
			humanize.Count(read.TooLong)))
	}
	if read.Misdated > 0 {
		texts = append(texts, fmt.Sprintf("Skipped events whose time contradicts the events around them: %s.",
			humanize.Count(read.Misdated)))
	}
	for _, text := range read.Damaged {
		texts = append(texts, "Damaged, and not read to the end: "+text+".")
	}
	return texts
}
