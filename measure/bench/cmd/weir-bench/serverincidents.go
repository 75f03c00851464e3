package main

import (
	"context"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/servers"
)

// serverReplay is a replay in which clients cause the incident in API servers.
type serverReplay struct {
	servers.Replay
	prepare func(*servers.Options)
}

func (r serverReplay) run(ctx context.Context, f *labFlags, done func(figures.Traced)) error {
	o := servers.Defaults()
	o.Pods, o.Proxy, o.Progress = f.Objects, f.proxy, f.Progress
	if f.real != "" {
		o.Config, o.Writes = f.Config, true
	}
	r.prepare(&o)
	return r.Run(ctx, o, done)
}

const (
	stormPeriod = 2 * time.Second  // represents 10 h
	patience    = 30 * time.Second // how long clients without an answer are measured
	readingRate = 2000             // objects that the client of initial-events reads per second
	readingFor  = 6 * time.Second
	slowReaders = 12
	slowBytes   = 40e6 // bytes that each slow reader reads per second
	rssLimit    = 4e9  // of a server's memory; above it, its slow readers are disconnected
)

// maxObjects limits the number of objects that all clients of an incident receive together, so that
// the incident takes at most a minute.
const maxObjects = 300_000

const (
	agentsInIncident      = 2000
	controllersInIncident = 200
)

// upTo returns a function that returns the number of clients that receive all pods. That number is
// at most clients. The number is small enough that all clients together receive at most maxObjects,
// but at least two.
func upTo(clients int) func(pods int) int {
	return func(pods int) int { return max(2, min(clients, maxObjects/max(1, pods))) }
}

var (
	agentsOf      = upTo(agentsInIncident)
	controllersOf = upTo(controllersInIncident)
)

// answersAlike is the value of Embedded for incidents whose picture shows the work that requests
// cause.
const answersAlike = "The embedded server answers out of the same watch cache as weir-proxy. A kube-apiserver takes several times the CPU for the same answers: replay it on one with --real."

// serverIncidents are the incidents that clients cause in API servers.
var serverIncidents = []incident{resyncStorm, nodeAgents, initialEvents, concurrentLists, thunderingRestart}

var resyncStorm = incident{
	Name: "resync-storm", Title: "CPU that the API server has used in one resync",
	Text: "A handler that LISTs by a label selector for each object that it is handed is called for all objects at once when the resync comes: as many LISTs as there are objects, in " +
		"one burst, each a walk over all objects in kube-apiserver, which has no index by label. resourceVersion \"0\" saves it the question to etcd, and no more. A " +
		"filter before the LIST saves what it refuses. Through the proxy the API server sees nothing of it.",
	Level:    "Weir's informer finds the objects in an index of its own, and hands out the resync over its whole period: no request at all.",
	Embedded: answersAlike,
	replay: serverReplay{servers.ResyncStorm(), func(o *servers.Options) {
		o.Resync, o.Patience = stormPeriod, patience
	}},
	curve: cpuSoFar,
	figures: []figures.Figure{
		figures.New("calls", "calls", figures.Count), figures.New("requests", "requests", figures.Count), figures.New("cpuSeconds", "server CPU", figures.Seconds),
		figures.New("allocBytes", "allocated", figures.Bytes), figures.New("proxyCPUSeconds", "proxy CPU", figures.Seconds),
	},
}

var nodeAgents = incident{
	Name: "node-agents", Title: "CPU that the API server has used while %s agents start",
	Text: "An agent on each node LISTs the pods when it starts, and after a rollout all start at once: each answer has every pod of the cluster, so that the work grows with the square " +
		"of its size. A field selector brings each agent the pods of its node only; kube-apiserver has an index by spec.nodeName.",
	Level:    "Through weir-proxy the agents are as they were, and the API server is asked how current the proxy is, once for all of them.",
	Embedded: answersAlike,
	clients:  agentsOf,
	pods:     maxObjects / agentsInIncident,
	replay:   serverReplay{servers.NodeAgents(), func(o *servers.Options) { o.Kubelets, o.Patience = agentsOf(o.Pods), patience }},
	curve:    cpuSoFar,
	figures: []figures.Figure{
		figures.New("upSeconds", "all up after", figures.Seconds), figures.New("failed", "failed", figures.Count), figures.New("cpuSeconds", "server CPU", figures.Seconds), figures.New("bytes", "sent", figures.Bytes),
		figures.New("requests", "requests", figures.Count), figures.New("proxyCPUSeconds", "proxy CPU", figures.Seconds),
	},
}

var initialEvents = incident{
	Name: "initial-events", Title: "Objects that a WATCH from \"0\" has brought, 500 changes a second",
	Text: "A WATCH that begins with the state is sent every object first, and what changes meanwhile waits in a buffer of at most 1,000 changes. A client that has not taken the state by " +
		"the time that the buffer is full is cut off, and begins with the first object again; while the cluster is as busy, it never gets through.",
	Level:    "weir-proxy has a cursor over one log of changes for each watch, and no buffer: a slow client receives the last state of each changed object, after the initial events.",
	Embedded: "The embedded server closes slow watches here by a fault rule, which does what kube-apiserver's watch cache does with a full buffer.",
	replay: serverReplay{servers.InitialEvents(), func(o *servers.Options) {
		o.ReadRate, o.Duration = readingRate, readingFor
	}},
	curve: received,
	figures: []figures.Figure{
		figures.New("received", "objects received", figures.Count), figures.New("restarts", "restarts", figures.Count), figures.New("throughSeconds", "through after", figures.Seconds),
		figures.New("updatesPerSecond", "changes a second", figures.Number),
	},
}

var concurrentLists = incident{
	Name: "concurrent-lists", Title: "Resident memory of the server that 12 slow readers LIST from",
	Text: "A LIST's answer is built for each request, and its memory is held until the reader has taken the last byte: the encoded body in servers that do not encode item by item " +
		"(kube-apiserver before 1.33), in all of them the list of decoded objects. Some readers of large lists at once, slow or behind a slow network, take all the memory.",
	Level: "weir-proxy walks over a snapshot of packed objects and writes as the reader takes: a slow LIST costs it a position and a buffer.",
	Embedded: "The embedded server builds each answer in memory here, as kube-apiserver did before 1.33. Unlike any kube-apiserver it has no decoded objects: what a newer one " +
		"holds for a slow reader shows only with --real.",
	replay: serverReplay{servers.ConcurrentLists(), func(o *servers.Options) {
		o.SlowProtobuf, o.SlowJSON, o.SlowBytes, o.RSSLimit = slowReaders-slowReaders/3, slowReaders/3, slowBytes, rssLimit
	}},
	curve: residentMemory,
	figures: []figures.Figure{
		figures.New("rssGrowthBytes", "RSS grows by", figures.Bytes), figures.New("peakRSSBytes", "peak RSS", figures.Bytes), figures.New("broken", "cut off", figures.Count),
		figures.New("seconds", "time", figures.Seconds), figures.New("cpuSeconds", "API server CPU", figures.Seconds),
	},
}

var thunderingRestart = incident{
	Name: "thundering-restart", Title: "CPU that the API server has used while %s controllers restart",
	Text: "After an upgrade, a lost node or an outage of the API server many controllers start at once, and each informer of each of them gets its whole resource, by LIST or by a WATCH " +
		"that begins with the state. The API server encodes the same objects once for each.",
	Level:    "weir-proxy answers all of them out of one copy, which it has by one LIST and one WATCH of its own. It asks the API server how current its copy is, once for all.",
	Embedded: answersAlike,
	clients:  controllersOf,
	pods:     maxObjects / controllersInIncident,
	replay:   serverReplay{servers.ThunderingRestart(), func(o *servers.Options) { o.Herd, o.Patience = controllersOf(o.Pods), patience }},
	curve:    cpuSoFar,
	figures: []figures.Figure{
		figures.New("requests", "LISTs, WATCHes", figures.Count), figures.New("cpuSeconds", "server CPU", figures.Seconds), figures.New("upSeconds", "all in sync after", figures.Seconds),
		figures.New("failed", "failed", figures.Count), figures.New("allocBytes", "allocated", figures.Bytes), figures.New("proxyCPUSeconds", "proxy CPU", figures.Seconds),
	},
}
