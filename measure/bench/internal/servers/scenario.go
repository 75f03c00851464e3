package servers

import (
	"context"
	"io"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Scenario is one measurement, on each of the servers.
type Scenario struct {
	Name  string
	Short string // one line about what it measures
	Runs  int    // on each side, unless the options set a number

	Writes bool // it changes pods
	Heavy  bool // it needs a large machine, and runs only if the user names it

	figures []figures.Figure
	measure func(context.Context, *trial) Figures // ends its attempt if it fails
}

// Figures are measured values by name. A name ends with the unit.
type Figures = figures.Values

// Help returns the scenario's figures, one per line: the key in the JSON and the label.
func (s Scenario) Help() string { return figures.Help("    %-24s %s\n", s.figures) }

// Scenarios returns all scenarios, in the order in which they run.
func Scenarios() []Scenario {
	return []Scenario{hold, label, list, initial, slowLists, slowReader, kubelets, everybody, crowd, stalled, herd, shards}
}

// Named returns the scenarios with the given names, in the usual order. If no name is given, it
// returns all scenarios that are not heavy. An unknown name is an error.
func Named(names ...string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s Scenario) bool { return s.Heavy }), nil
	}
	return figures.Choose("measurement", all, func(s Scenario) string { return s.Name }, names...)
}

// Options say what to measure, on which server, and how much. The limits of figures apply to the
// options of [Defaults].
type Options struct {
	// Config is the configuration for the kube-apiserver. If it is nil, there is no kube-apiserver: an
	// embedded server with Pods pods is weir's upstream.
	Config *rest.Config
	Pods   int
	// Population is the kind of these pods, see apiserver.Options.
	Population string
	// Proxy is the path of the program weir-proxy.
	Proxy string

	// Writes says that pods may be changed. A change sets an annotation through the API server or, if
	// EtcdURL is set, directly in etcd. Pods of an embedded server may always be changed.
	Writes  bool
	EtcdURL string

	Runs     int           // on each side; 0: the scenario's default
	Cheap    time.Duration // for how long requests that cost little CPU are repeated
	Duration time.Duration // for how long many watchers are measured

	Kubelets, Watchers, Herd int
	// Crowd is the number of watchers in the scenario crowd, each of one node's pods. Stalled is the
	// number of watchers in the scenario stalled that read nothing.
	Crowd, Stalled int

	SlowProtobuf, SlowJSON int // the numbers of readers in slowlists
	// SlowAPIServer is the number of readers of kube-apiserver in the scenario slowlists. The default
	// is 0, because these readers may make kube-apiserver use up all memory.
	SlowAPIServer int
	SlowBytes     float64 // how many bytes each reader in slowlists reads per second
	RSSLimit      float64 // slow readers of a server with more memory are disconnected

	ReadRate float64       // events that slowreader reads per second
	Follow   time.Duration // how long slowreader continues after the initial state
	Patience time.Duration // how long the clients of slowreader, stalled and incidents may take

	Resync time.Duration // the period of the informer of ResyncStorm

	restarts    float64 // ends InitialEvents after this many restarts; 0: Duration ends it
	watchBuffer int     // per watcher of an embedded server, in changes; 0: no limit
	whole       bool    // an embedded server builds each LIST in memory first

	Progress io.Writer // receives a line for each run
}

// Defaults returns the options to which the limits of figures apply.
func Defaults() Options {
	return Options{
		Pods: 50_000, Cheap: 3 * time.Second, Duration: 20 * time.Second,
		Kubelets: 1000, Watchers: 100, Herd: 200, Crowd: 10_000, Stalled: 100,
		SlowProtobuf: 16, SlowJSON: 8, SlowBytes: 30e6, RSSLimit: 8e9,
		ReadRate: 1200, Follow: 5 * time.Second, Patience: 5 * time.Minute,
		Progress: io.Discard,
	}
}
