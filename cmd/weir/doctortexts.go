package main

import (
	"cmp"
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

// headlineText returns one sentence about the client that caused the most work.
func headlineText(r *doctor.Report) string {
	h := r.Headline
	if h == nil {
		return "No client caused work."
	}
	name := cmp.Or(h.Client.Agent, h.Client.User)
	caused := fmt.Sprintf("%s caused %.0f %% of the API server's predicted work", name, 100*h.Share)
	switch h.Work {
	case doctor.WorkTime:
		caused = fmt.Sprintf("%s caused %.0f %% of the time that LISTs took", name, 100*h.Share)
	case doctor.WorkRequests:
		caused = fmt.Sprintf("%s sent %.0f %% of the requests", name, 100*h.Share)
	}
	did := fmt.Sprintf("%s LISTs in %s", humanize.Count(h.Totals.Lists), humanize.Duration(time.Duration(h.Totals.ListSeconds*float64(time.Second))))
	switch {
	case h.Objects >= 1e6:
		did = humanize.Number(float64(h.Objects)/1e6) + " million objects read"
	case h.Objects > 0:
		did = humanize.Count(h.Objects) + " objects read"
	case h.Totals.Lists == 0:
		did = humanize.Count(h.Totals.Requests) + " requests"
	}
	if h.Finding < 0 {
		return fmt.Sprintf("%s: %s. Doctor has no finding about it: %s.", caused, did, h.Why)
	}
	return fmt.Sprintf("%s: %s; %s.", caused, did, fixText(r.Findings[h.Finding], h.Finding+1))
}

// fixText returns a phrase about how to fix finding n.
func fixText(f doctor.Finding, n int) string {
	switch {
	case f.Change == "" || f.Kind == doctor.FindingRefused:
		return fmt.Sprintf("finding %d says what to change", n)
	case strings.HasPrefix(f.Change, "kubectl "):
		return fmt.Sprintf("one command replaces that (finding %d)", n)
	}
	return fmt.Sprintf("one line fixes it (finding %d)", n)
}

// liveHeadline returns one sentence about the resource whose LISTs took longest.
func liveHeadline(r *doctor.Live) string {
	if len(r.Resources) == 0 {
		return "The server answered no requests for resources."
	}
	sum, top := 0.0, &r.Resources[0]
	for i := range r.Resources {
		sum += r.Resources[i].ListSeconds
		if r.Resources[i].ListSeconds > top.ListSeconds {
			top = &r.Resources[i]
		}
	}
	if sum == 0 {
		return "The server answered no LISTs."
	}
	text := fmt.Sprintf("LISTs of %s caused %.0f %% of the time that LISTs took: %s LISTs", top.Name, 100*top.ListSeconds/sum, humanize.Rounded(top.Lists))
	if at := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Resource == top.Name }); at >= 0 {
		return text + "; " + fixText(r.Findings[at], at+1) + "."
	}
	return text + "; none of their counts is above the limits of a finding."
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
