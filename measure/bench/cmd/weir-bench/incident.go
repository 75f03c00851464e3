package main

import (
	"context"
	"slices"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// incident is an incident to replay. The page's template reads the exported fields.
type incident struct {
	Name string
	// Title is the title of the picture. It states values that were measured: {pods} is the number of
	// pods, {clients} that of clients, {SIDE} the highest value of a side's line, and {last SIDE} the
	// last value.
	Title string
	Text  string // what happens, in terms of Kubernetes
	Level string // what weir does differently

	// Embedded describes how the figures on the embedded server differ from the figures on a
	// kube-apiserver. It is empty if they do not differ.
	Embedded string

	replay  replay
	clients func(pods int) int // the number of clients; nil: not a figure of this incident
	pods    int                // the default number of pods; 0: all
	curve   curve
	figures []figures.Figure // the columns of the table
}

// replay runs the sides of an incident one after the other, and calls done for each.
type replay interface {
	run(ctx context.Context, f *labFlags, done func(figures.Traced)) error
}

// incidents returns all incidents, in the order in which they are replayed.
func incidents() []incident { return slices.Concat(informerIncidents, serverIncidents) }

// ofInformers reports whether informers cause the incident. They run in their own process, on a
// server that is already running.
func (i incident) ofInformers() bool {
	_, ok := i.replay.(informerReplay)
	return ok
}

// run replays the incident and calls done for each side.
func (i incident) run(ctx context.Context, f *labFlags, done func(side string, v figures.Values)) (replayed, error) {
	one := *f
	if f.few && f.real == "" && i.pods > 0 {
		one.Objects = min(f.Objects, i.pods)
	}
	out := replayed{incident: i, Name: i.Name, Pods: one.Objects}
	err := i.replay.run(ctx, &one, func(s figures.Traced) {
		out.Sides = append(out.Sides, s)
		done(s.Label, s.Figures)
	})
	return out, err
}
