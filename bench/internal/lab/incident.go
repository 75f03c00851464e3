package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirproject/weir/bench/internal/figures"
)

// Incident is a story that is replayed.
type Incident struct {
	Name  string
	Title string // what is drawn; how many pods there are is added
	Story string // what happens, in Kubernetes' terms
	Level string // what weir does instead

	// Embedded says what is different on the embedded server, for readers of its figures. If it
	// is empty, all is as on a kube-apiserver.
	Embedded string

	replay  replay
	clients func(pods int) int // the number that Title has a place for; nil: it has none
	pods    int                // with Options.Few, so many pods, for the clients of the story; 0: all
	curve   curve
	figures []figures.Figure // the table's columns
}

// replay runs the sides of an incident in turn, and calls done for each.
type replay interface {
	run(ctx context.Context, o Options, done func(Side)) error
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
	all := Incidents()
	var known []string
	for _, i := range all {
		known = append(known, i.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no incident %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(i Incident) bool { return !slices.Contains(names, i.Name) }), nil
}
