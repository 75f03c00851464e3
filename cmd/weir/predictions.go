package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// incidentURL returns the address of the page that explains an incident.
func incidentURL(name string) string {
	return "https://github.com/weirproject/weir/blob/main/docs/incidents/" + name + ".md"
}

// costCells returns the cells of the cost of a client's LISTs, "-" if the number of
// objects is unknown.
func costCells(c cost.Cost) []string {
	if c == (cost.Cost{}) {
		return []string{"-", "-"}
	}
	return []string{humanize.Seconds(c.CPUSeconds), humanize.Bytes(int64(c.Bytes))}
}

// predictionHead are the columns of predictions.
var predictionHead = []string{"REQUESTS", "SENT", "CPU", "MEMORY", "PROXY CPU"}

// predictionCells returns the cells of one prediction.
func predictionCells(p doctor.Prediction, memory float64) []string {
	proxy := ""
	if p.ProxyCPUSeconds > 0 {
		proxy = humanize.Seconds(p.ProxyCPUSeconds)
	}
	return []string{
		humanize.Rounded(p.Requests), humanize.Bytes(int64(p.Bytes)),
		humanize.Seconds(p.CPUSeconds), humanize.Bytes(int64(memory)), proxy,
	}
}

// whatIf prints the cost of requests, also with each remedy.
func (p *prescription) whatIf(all []doctor.Prediction) {
	if len(all) == 0 {
		return
	}
	rows := [][]string{append([]string{"   WHAT IF"}, predictionHead...)}
	for _, one := range all {
		rows = append(rows, append([]string{"   " + one.Remedy}, predictionCells(one, one.HeldBytes)...))
	}
	p.rows(rows) // the next write fails, too
}

// predictions prints the cost of a restart, and the sizes that all predictions use.
func (p *prescription) predictions(r *doctor.Report) error {
	if r.Restart != nil {
		fmt.Fprintln(p.out)
		p.paragraph("", restartText(r.Restart))
		var rows [][]string
		for i, one := range r.Restart.Predictions {
			if i == 0 {
				rows = append(rows, append([]string{"WHAT IF"}, predictionHead...))
			}
			rows = append(rows, append([]string{one.Remedy}, predictionCells(one, r.Restart.PeakBytes[i])...))
		}
		if err := p.rows(rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(p.out)
	p.paragraph("", strings.TrimSpace(sizesText(r.Sizes)+" "+lowText(r)))
	return nil
}

// restartText describes the table of a restart.
func restartText(r *doctor.Restart) string {
	memory := "MEMORY is what is added to the server's"
	if r.Whole {
		memory = "MEMORY is the server's peak"
	}
	text := fmt.Sprintf("If everything restarted at once, %s LISTs and WATCHes of %s clients would begin together.",
		humanize.Rounded(r.Starts), humanize.Count(int64(r.Clients)))
	if len(r.Unpriced) > 0 {
		var names []string
		for _, u := range r.Unpriced[:min(len(r.Unpriced), maxUnpriced)] {
			names = append(names, fmt.Sprintf("%s (%s)", u.Resource, humanize.Rounded(u.Starts)))
		}
		if more := len(r.Unpriced) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more resources", more))
		}
		which := "None of them can be predicted"
		if r.Priced > 0 {
			which = fmt.Sprintf("%s of them are predicted, and the others are not", humanize.Rounded(r.Priced))
		}
		text += fmt.Sprintf(" %s: it is not known how many objects there are. They are for %s.", which, strings.Join(names, ", "))
	}
	if len(r.Predictions) == 0 {
		return text
	}
	return text + fmt.Sprintf(" Most of the cost would be that of %s with %s of them, for %s. Below, that client asks otherwise; %s.",
		r.Killer, humanize.Rounded(r.Killers), r.Resource, memory)
}

// maxUnpriced bounds the named resources whose cost is not predicted.
const maxUnpriced = 5

// maxSizes bounds the sizes that are printed on a terminal.
const maxSizes = 6

// sizesText describes the sizes that predictions use.
func sizesText(sizes []doctor.Size) string {
	if len(sizes) == 0 {
		return "What LISTs cost is not predicted: the number of objects is not known. " +
			"--objects pods=50000 states it, or a server, such as --context production."
	}
	var parts []string
	for _, s := range sizes[:min(len(sizes), maxSizes)] {
		parts = append(parts, fmt.Sprintf("%s %s (%s) of %s (%s)", humanize.Count(s.Objects), s.Resource,
			s.ObjectsFrom, humanize.Bytes(int64(s.Bytes)), s.BytesFrom))
	}
	if n := len(sizes) - maxSizes; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more resources", n))
	}
	return "CPU, SENT and MEMORY are predicted, for " + strings.Join(parts, ", ") + "."
}

// lowText describes the precision of predictions of little CPU. It returns "" if there are none.
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
	return fmt.Sprintf("Where CPU is less than %g s, a server may take twice as much: "+
		"what it does by itself is not little beside that.", cost.LeastCPU)
}
