package servers

import (
	"context"
	"io"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Scenario is one measurement.
type Scenario struct {
	Name  string
	Short string // one line on what is measured
	Runs  int    // of each side, unless the options say

	Writes bool // it changes pods
	Heavy  bool // it needs a large machine, and is run only when it is named

	figures []figures.Figure
	measure func(context.Context, *trial) Figures // ends its attempt if it fails
}

// Figures are what was measured, by name. Names end in their unit.
type Figures = figures.Values

// Help returns the scenario's figures, one a line: the key that JSON has, and what it is.
func (s Scenario) Help() string { return figures.Help("    %-24s %s\n", s.figures) }

// Scenarios returns all scenarios, in the order in which they are run.
func Scenarios() []Scenario {
	return []Scenario{hold, label, list, initial, slowLists, slowReader, kubelets, everybody, crowd, stalled, herd, shards}
}

// Named returns the scenarios of the given names, in the usual order, or all but the heavy ones if
// no name is given. A name that no scenario has is an error.
func Named(names ...string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s Scenario) bool { return s.Heavy }), nil
	}
	return figures.Choose("measurement", all, func(s Scenario) string { return s.Name }, names...)
}

// Options say what to measure, where, and how much of it. Those of [Defaults] are what the wanted
// figures are about.
type Options struct {
	// Config leads to the kube-apiserver; nil: there is none, and an embedded server with Pods pods
	// is weir's upstream.
	Config *rest.Config
	Pods   int
	// Population is that of those pods, as apiserver.Options has it.
	Population string
	// Proxy is the program weir-proxy.
	Proxy string

	// Writes allows to change pods: by setting an annotation of pods through the API server, or,
	// where EtcdURL says so, by writing pods straight into etcd. An embedded server is always
	// written to.
	Writes  bool
	EtcdURL string

	Runs     int           // of each side; 0: the scenario's own
	Cheap    time.Duration // for how long requests are repeated that take little CPU each
	Duration time.Duration // for how long many watchers are measured

	Kubelets, Watchers, Herd int
	// Crowd is the watchers by node of crowd, and Stalled those of stalled that read nothing.
	Crowd, Stalled int

	SlowProtobuf, SlowJSON int // readers of slowlists
	// SlowAPIServer is the readers of kube-apiserver. 0: none, since it may take all the memory that
	// there is.
	SlowAPIServer int
	SlowBytes     float64 // that each reads in a second
	RSSLimit      float64 // of a server, at which its slow readers are cut off

	ReadRate float64       // events that slowreader takes in a second
	Follow   time.Duration // how long it goes on behind the initial state
	Patience time.Duration // for how long at most it is measured

	Resync time.Duration // of the informer of ResyncStorm

	restarts    float64 // after as many, the client of InitialEvents is let go; 0: only time ends it
	watchBuffer int     // of each watcher of an embedded server, in changes; 0: it closes none
	whole       bool    // an embedded server builds each LIST in memory before it sends it

	Progress io.Writer // gets a line for each run
}

// Defaults returns the options that the wanted figures are about.
func Defaults() Options {
	return Options{
		Pods: 50_000, Cheap: 3 * time.Second, Duration: 20 * time.Second,
		Kubelets: 1000, Watchers: 100, Herd: 200, Crowd: 10_000, Stalled: 100,
		SlowProtobuf: 16, SlowJSON: 8, SlowBytes: 30e6, RSSLimit: 8e9,
		ReadRate: 1200, Follow: 5 * time.Second, Patience: 5 * time.Minute,
		Progress: io.Discard,
	}
}
