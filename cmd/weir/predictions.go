package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/cost"
	"github.com/weirproject/weir/internal/doctor"
	"github.com/weirproject/weir/internal/quantity"
)

// incidentURL returns the address of the page that explains an incident.
func incidentURL(name string) string {
	return "https://github.com/weirproject/weir/blob/main/docs/incidents/" + name + ".md"
}

// costCells returns the cells of what a client's LISTs cost, "-" where nobody knows how many
// objects there are.
func costCells(c cost.Cost) []string {
	if c == (cost.Cost{}) {
		return []string{"-", "-"}
	}
	return []string{quantity.Seconds(c.CPUSeconds), quantity.Bytes(int64(c.Bytes))}
}

// predictionHead are the columns of predictions.
var predictionHead = []string{"REQUESTS", "SENT", "CPU", "MEMORY", "PROXY CPU"}

// predictionCells returns the cells of one prediction.
func predictionCells(p doctor.Prediction, memory float64) []string {
	proxy := ""
	if p.ProxyCPUSeconds > 0 {
		proxy = quantity.Seconds(p.ProxyCPUSeconds)
	}
	return []string{
		quantity.Count(int64(p.Requests + 0.5)), quantity.Bytes(int64(p.Bytes)),
		quantity.Seconds(p.CPUSeconds), quantity.Bytes(int64(memory)), proxy,
	}
}

// whatIf prints what requests cost, and would have cost with each remedy.
func (p *prescription) whatIf(all []doctor.Prediction) {
	if len(all) == 0 {
		return
	}
	rows := [][]string{append([]string{"   WHAT IF"}, predictionHead...)}
	for _, one := range all {
		rows = append(rows, append([]string{"   " + one.Remedy}, predictionCells(one, one.HeldBytes)...))
	}
	p.rows(rows) // a failure to write is found by what is written next
}

// predictions prints what a restart would take, and what all predictions rest on.
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

// restartText returns a sentence on what the table of a restart is about.
func restartText(r *doctor.Restart) string {
	memory := "MEMORY is what is added to the server's"
	if r.Whole {
		memory = "MEMORY is the server's peak"
	}
	count := func(n float64) string { return quantity.Count(int64(n + 0.5)) }
	text := fmt.Sprintf("If everything restarted at once, %s LISTs and WATCHes of %s clients would begin together.",
		count(r.Starts), quantity.Count(int64(r.Clients)))
	if len(r.Unpriced) > 0 {
		var names []string
		for _, u := range r.Unpriced[:min(len(r.Unpriced), maxUnpriced)] {
			names = append(names, fmt.Sprintf("%s (%s)", u.Resource, count(u.Starts)))
		}
		if more := len(r.Unpriced) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more resources", more))
		}
		which := "None of them can be predicted"
		if r.Priced > 0 {
			which = fmt.Sprintf("%s of them are predicted, and the others are not", count(r.Priced))
		}
		text += fmt.Sprintf(" %s: it is not known how many objects there are. They are for %s.", which, strings.Join(names, ", "))
	}
	if len(r.Predictions) == 0 {
		return text
	}
	return text + fmt.Sprintf(" Most of the cost would be that of %s with %s of them, for %s. Below, that client asks otherwise; %s.",
		r.Killer, count(r.Killers), r.Resource, memory)
}

// maxUnpriced bounds the resources that are named of which no cost is predicted.
const maxUnpriced = 5

// maxSizes bounds the sizes that are told on a terminal.
const maxSizes = 6

// sizesText returns a sentence on what predictions rest on.
func sizesText(sizes []doctor.Size) string {
	if len(sizes) == 0 {
		return "What LISTs cost is not predicted: nobody says how many objects there are. " +
			"--objects pods=50000 does, or a server, such as --context production."
	}
	var parts []string
	for _, s := range sizes[:min(len(sizes), maxSizes)] {
		parts = append(parts, fmt.Sprintf("%s %s (%s) of %s (%s)", quantity.Count(s.Objects), s.Resource,
			s.ObjectsFrom, quantity.Bytes(int64(s.Bytes)), s.BytesFrom))
	}
	if n := len(sizes) - maxSizes; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more resources", n))
	}
	return "CPU, SENT and MEMORY are predicted, for " + strings.Join(parts, ", ") + "."
}

// lowText returns a sentence on how good predictions of little CPU are, or "" if there are none.
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
