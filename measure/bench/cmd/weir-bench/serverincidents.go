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
	rssLimit    = 4e9  // if a server's memory exceeds it, the server's slow readers are disconnected
)

// maxObjects limits the number of objects that all clients of an incident receive together, so that
// the incident takes at most a minute.
const maxObjects = 300_000

const (
	agentsInIncident      = 2000
	controllersInIncident = 200
)

// upTo returns a function that returns the number of clients for a number of pods. Each client
// receives all pods. The number is at most the parameter clients. It is also limited so that all
// clients together receive at most maxObjects objects. The smallest number is two.
func upTo(clients int) func(pods int) int {
	return func(pods int) int { return max(2, min(clients, maxObjects/max(1, pods))) }
}

var (
	agentsOf      = upTo(agentsInIncident)
	controllersOf = upTo(controllersInIncident)
)

// answersAlike is the value of Embedded for incidents whose picture shows the work that requests
// cause.
const answersAlike = "The embedded server answers from the same watch cache as weir-proxy. A kube-apiserver uses several times the CPU for the same answers: --real replays the incident on one."

// serverIncidents are the incidents that clients cause in API servers.
var serverIncidents = []incident{resyncStorm, nodeAgents, initialEvents, concurrentLists, thunderingRestart}

var resyncStorm = incident{
	Name: "resync-storm", Title: `One resync of {pods} pods: a LIST per pod costs the API server {client-go, LIST ""} of CPU, Weir's index {Weir, index}`,
	Text: "A handler sends a LIST with a label selector for each object that it receives. A resync passes all objects to the handler in one burst, which causes one LIST per object. For each " +
		"LIST, kube-apiserver compares all objects, because it has no index by label. resourceVersion \"0\" only saves the request to etcd. A filter before the LIST " +
		"saves the LISTs of the objects that it rejects. With the proxy, the API server receives none of these LISTs.",
	Level:    "Weir's informer finds the objects in its own index, and spreads the resync over its period. It sends no request.",
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
	Name: "node-agents", Title: `The start of {clients} agents that LIST {pods} pods costs the API server {LIST of all, ""} of CPU, {through weir-proxy} behind weir-proxy`,
	Text: "An agent on each node LISTs the pods when it starts, and after a rollout all agents start at the same time. Each response contains every pod of the cluster, so the work grows with the square " +
		"of the cluster's size. With a field selector, each agent receives only the pods of its node; kube-apiserver has an index by spec.nodeName.",
	Level:    "With weir-proxy, the agents need no change, and the API server receives one request for all of them: whether the proxy is current.",
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
	Name: "initial-events", Title: "During 500 changes per second, a WATCH of {pods} pods receives up to {API server} objects from the API server, {weir-proxy} from weir-proxy",
	Text: "A WATCH that starts with the state receives all objects first. Meanwhile, changes wait in a buffer of at most 1,000 changes. If the buffer is full before the client has read " +
		"the state, the server ends the WATCH, and the client starts with the first object again. While the cluster remains this busy, the client never receives the whole state.",
	Level:    "weir-proxy has no buffer, but a cursor over one log of changes for each watch: after the initial events, a slow client receives the last state of each changed object.",
	Embedded: "Here, a fault rule of the embedded server closes slow watches, as kube-apiserver's watch cache does when a buffer is full.",
	replay: serverReplay{servers.InitialEvents(), func(o *servers.Options) {
		o.ReadRate, o.Duration = readingRate, readingFor
	}},
	curve: received,
	figures: []figures.Figure{
		figures.New("received", "objects received", figures.Count), figures.New("restarts", "restarts", figures.Count), figures.New("throughSeconds", "complete after", figures.Seconds),
		figures.New("updatesPerSecond", "changes a second", figures.Number),
	},
}

var concurrentLists = incident{
	Name: "concurrent-lists", Title: "12 slow LISTs of {pods} pods: the API server peaks at {API server} of memory, weir-proxy at {weir-proxy}",
	Text: "A server builds the response to a LIST for each request, and keeps it in memory until the client has read the last byte: the encoded body in servers that do not encode item by item " +
		"(kube-apiserver before 1.33), and the list of decoded objects in all servers. A few clients that read large lists slowly at the same time use up the memory.",
	Level: "weir-proxy reads a snapshot of packed objects at the pace of the client: a slow LIST costs a position and a buffer.",
	Embedded: "Here, the embedded server builds each response in memory, as kube-apiserver did before 1.33. Unlike any kube-apiserver, it has no decoded objects: only --real shows the " +
		"memory that a newer kube-apiserver uses for a slow reader.",
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
	Name: "thundering-restart", Title: "The restart of {clients} controllers of {pods} pods costs the API server {client-go, WATCH} of CPU, {through weir-proxy} behind weir-proxy",
	Text: "After an upgrade, the loss of a node or an outage of the API server, many controllers start at the same time. Each of their informers reads its whole resource, with a LIST or with a WATCH " +
		"that starts with the state. The API server encodes the same objects once per informer.",
	Level:    "weir-proxy answers all informers from one copy, for which it sends one LIST and one WATCH. One request to the API server proves for all of them that the copy is current.",
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
