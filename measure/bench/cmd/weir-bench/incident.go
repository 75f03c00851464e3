package main

import (
	"context"
	"slices"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// incident is what is replayed. The page's template reads the exported fields.
type incident struct {
	Name  string
	Title string // what is drawn; how many pods there are is added
	Text  string // what happens, in Kubernetes' terms
	Level string // what weir does instead

	// Embedded says what is different on the embedded server, for readers of its figures. If it
	// is empty, all is as on a kube-apiserver.
	Embedded string

	replay  replay
	clients func(pods int) int // the number that Title has a place for; nil: it has none
	pods    int                // how many there are for its clients, if no flag says; 0: all
	curve   curve
	figures []figures.Figure // the table's columns
}

// replay runs the sides of an incident in turn, and calls done for each.
type replay interface {
	run(ctx context.Context, f *labFlags, done func(figures.Traced)) error
}

// incidents returns all incidents, in the order in which they are replayed.
func incidents() []incident { return slices.Concat(informerIncidents, serverIncidents) }

// ofInformers reports whether informers bring the incident about in their own process, on a server
// that is there already.
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
