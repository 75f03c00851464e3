package lab

import (
	"context"
	"slices"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Incident is what is replayed.
type Incident struct {
	Name  string
	Title string // what is drawn; how many pods there are is added
	Text  string // what happens, in Kubernetes' terms
	Level string // what weir does instead

	// Embedded says what is different on the embedded server, for readers of its figures. If it
	// is empty, all is as on a kube-apiserver.
	Embedded string

	replay  replay
	clients func(pods int) int // the number that Title has a place for; nil: it has none
	pods    int                // with Options.Few: how many pods there are, for its clients; 0: all
	curve   curve
	figures []figures.Figure // the table's columns
}

// replay runs the sides of an incident in turn, and calls done for each.
type replay interface {
	run(ctx context.Context, o Options, done func(figures.Traced)) error
}

// Incidents returns all incidents, in the order in which they are replayed.
func Incidents() []Incident { return slices.Concat(informerIncidents, serverIncidents) }

// OfInformers reports whether informers bring the incident about in their own process, on a server
// that is there already.
func (i Incident) OfInformers() bool {
	_, ok := i.replay.(ofInformers)
	return ok
}

// Named returns the incidents of the given names, in the usual order, or all if no name is given. A
// name that no incident has is an error.
func Named(names ...string) ([]Incident, error) {
	return figures.Choose("incident", Incidents(), func(i Incident) string { return i.Name }, names...)
}
