package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// incidentURL returns the address of the page that explains an incident.
func incidentURL(name string) string {
	return "https://github.com/weirproject/weir/blob/main/docs/incidents/" + name + ".md"
}

// totalsText returns a sentence about the totals of the log.
func totalsText(r *doctor.Report) string {
	t := r.Totals
	text := fmt.Sprintf("%s to %s UTC, requests: %s, of those LISTs: %s (%s in all), WATCHes: %s, refused (429): %s, failed (5xx): %s.",
		r.From.Format(reportTime), r.To.Format(reportTime), humanize.Count(t.Requests), humanize.Count(t.Lists),
		humanize.Seconds(t.ListSeconds), humanize.Count(t.Watches), humanize.Count(t.Refused), humanize.Count(t.Failed))
	most, at := uint32(0), 0
	for i, n := range r.Rate.Lists {
		if n > most {
			most, at = n, i
		}
	}
	if most > 0 {
		width := time.Duration(r.Rate.Seconds * float64(time.Second))
		text += fmt.Sprintf(" Most LISTs: %s in the %g s from %s.", humanize.Count(int64(most)), r.Rate.Seconds,
			r.From.Add(time.Duration(at)*width).Format(reportTime))
	}
	return text
}

// findingText returns a sentence that describes a finding.
func findingText(f doctor.Finding) string {
	text := f.Text + "."
	if f.Client != (doctor.Client{}) {
		text = f.Client.String() + " " + text
	}
	if f.Objects > 0 {
		text += fmt.Sprintf(" That is %s objects.", humanize.Count(f.Objects))
	}
	return text
}

// liveText returns a sentence about a server's totals.
func liveText(r *doctor.Live) string {
	version := "kube-apiserver"
	if r.Version != "" {
		version += " " + r.Version
	}
	return fmt.Sprintf("%s, up for %s, in %.0f s: requests: %s, refused (429): %s, failed (5xx): %s; %.2f cores, %s resident, %s allocated a second.",
		version, (time.Duration(r.Uptime) * time.Second).String(), r.Seconds, humanize.Count(int64(r.Requests)), humanize.Count(int64(r.Refused)),
		humanize.Count(int64(r.Failed)), r.CPUCores, humanize.Bytes(int64(r.RSSBytes)), humanize.Bytes(int64(r.Allocated/r.Seconds)))
}

// restartText returns the text above the table of a restart.
func restartText(r *doctor.Restart) string {
	memory := "MEMORY is added to the server's"
	if r.Whole {
		memory = "MEMORY is the server's peak"
	}
	text := fmt.Sprintf("If all clients restarted at the same time, %s LISTs and WATCHes of %s clients would begin together.",
		humanize.Rounded(r.Starts), humanize.Count(int64(r.Clients)))
	if len(r.Unpriced) > 0 {
		var names []string
		for _, u := range r.Unpriced[:min(len(r.Unpriced), maxUnpriced)] {
			names = append(names, fmt.Sprintf("%s (%s)", u.Resource, humanize.Rounded(u.Starts)))
		}
		if more := len(r.Unpriced) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more resources", more))
		}
		which := "Doctor cannot predict their cost"
		if r.Priced > 0 {
			which = fmt.Sprintf("Doctor predicts the cost of %s of them, and not of the others", humanize.Rounded(r.Priced))
		}
		text += fmt.Sprintf(" %s: the number of objects is unknown. They are for %s.", which, strings.Join(names, ", "))
	}
	if len(r.Predictions) == 0 {
		return text
	}
	return text + fmt.Sprintf(" Most of the cost would be that of %s with %s of them, for %s. Below, that client asks otherwise; %s.",
		r.Killer, humanize.Rounded(r.Killers), r.Resource, memory)
}

// maxUnpriced limits how many resources without a predicted cost are named.
const maxUnpriced = 5

// maxSizes limits how many sizes are printed on a terminal.
const maxSizes = 6

// sizesText returns a sentence about the sizes that the predictions use.
func sizesText(sizes []doctor.Size) string {
	if len(sizes) == 0 {
		return "Doctor does not predict the cost of LISTs, because the number of objects is unknown. " +
			"State it with --objects pods=50000, or select a server, such as --context production."
	}
	var parts []string
	for _, s := range sizes[:min(len(sizes), maxSizes)] {
		parts = append(parts, fmt.Sprintf("%s %s (%s) of %s (%s)", humanize.Count(s.Objects), s.Resource,
			s.ObjectsFrom, humanize.Bytes(int64(s.Bytes)), s.BytesFrom))
	}
	if n := len(sizes) - maxSizes; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more resources", n))
	}
	return "CPU, SENT and MEMORY are predictions, for " + strings.Join(parts, ", ") + "."
}

// lowText returns a sentence about the precision of predictions of little CPU. It returns "" if the
// report has no such prediction.
func lowText(r *doctor.Report) string {
	low := func(c cost.Cost) bool { return c.CPUSeconds > 0 && c.CPUSeconds < cost.LeastCPU }
	predicted := func(p doctor.Prediction) bool { return low(p.Cost) }
	found := slices.ContainsFunc(r.Clients, func(c doctor.ClientReport) bool { return low(c.Cost) })
	for _, f := range r.Findings {
		found = found || slices.ContainsFunc(f.WhatIf, predicted)
	}
	if r.Restart != nil {
		found = found || slices.ContainsFunc(r.Restart.Predictions, predicted)
	}
	if !found {
		return ""
	}
	return fmt.Sprintf("Where CPU is below %g s, a server may use twice as much: "+
		"its own background work is not negligible then.", cost.LeastCPU)
}
