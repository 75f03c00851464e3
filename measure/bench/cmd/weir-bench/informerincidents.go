package main

import (
	"context"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// informerReplay is a replay in which informers cause the incident in their own process.
type informerReplay struct {
	informers.Replay
	prepare func(*informers.Options) // changes the options; nil: nothing
}

func (r informerReplay) run(ctx context.Context, f *labFlags, done func(figures.Traced)) error {
	o := f.Options
	if r.prepare != nil {
		r.prepare(&o)
	}
	return r.Run(ctx, o, done)
}

// The names of the sides.
const (
	clientGo = "client-go"
	weir     = "Weir"
	dropIn   = "Weir's drop-in"
)

var (
	byWatchList = informers.Side{Label: clientGo}
	byList      = informers.Side{Label: clientGo + ", LIST", List: true}
	byWeir      = informers.Side{Label: weir, Weir: true}
	byDropIn    = informers.Side{Label: dropIn, Weir: true, DropIn: true}
)

const (
	resyncPeriod = 3 * time.Second // represents 10 h
	blockedFor   = 4 * time.Second // how long the handler blocks
)

// informerIncidents are the incidents that informers cause in their own process.
var informerIncidents = []incident{firstList, pinnedArray, resync, relist, slowHandler}

var firstList = incident{
	Name: "first-list", Title: "Weir's first sync of {pods} pods peaks at {Weir} of memory, client-go's at {client-go}",
	Text: "An informer's first LIST, or the WATCH in its place, returns all objects. client-go has the body, the decoded list and the store in memory " +
		"at the same time, and garbage in addition.",
	Level:  "Weir reads the response as a stream and packs each object when it arrives, so memory contains only the store and one object.",
	replay: informerReplay{Replay: informers.Replay{Verb: "sync", Every: 20 * time.Millisecond, Sides: []informers.Side{byList, byWatchList, byDropIn, byWeir}}},
	curve:  residentMemory,
	figures: []figures.Figure{
		figures.New("peakRSSBytes", "peak RSS", figures.Bytes), figures.New("heapBytes", "heap, idle", figures.Bytes),
		figures.New("cpuSeconds", "CPU", figures.Seconds), figures.New("syncSeconds", "time to sync", figures.Seconds),
	},
}

var pinnedArray = incident{
	Name: "pinned-array", Title: "When 1 % of {pods} pods remain, meta.ExtractList leaves {last meta.ExtractList} of live heap, client-go {last client-go}, Weir {last Weir}",
	Text: "A decoded list is one array. A pointer to one of its objects keeps the whole array in memory: if 1 % of the objects remain, spread evenly, they occupy the memory of " +
		"100 % (kubernetes issue 111370). Today, client-go's reflector copies the objects. meta.ExtractList, which other caches use, does not.",
	Level: "Weir packs each object separately, and decoded objects share no array.",
	replay: informerReplay{Replay: informers.Replay{Verb: "leak", Every: 20 * time.Millisecond, Sides: []informers.Side{
		{Label: "meta.ExtractList", Extract: true}, byWatchList, byWeir,
	}}},
	curve: liveHeap,
	figures: []figures.Figure{
		figures.New("heapFullBytes", "heap, all", figures.Bytes), figures.New("heapRestBytes", "heap, 1 % left", figures.Bytes),
		figures.New("restShare", "share", figures.Number),
	},
}

var resync = incident{
	Name: "resync", Title: "Resyncs of {pods} pods every 3 s: client-go calls a handler up to {client-go} times in 100 ms, Weir up to {Weir} times",
	Text: "Once per resync period, an informer passes all cached objects to its handlers again. It sends no request, so a resync refreshes nothing, whether the period is 10 hours or, as here, " +
		"3 seconds. client-go passes all objects in one burst, and a handler that sends a request per object sends a burst of requests. kube-controller-manager draws each " +
		"informer's period between once and twice its own period, which only moves the burst.",
	Level: "Weir spreads each resync over its period.",
	replay: informerReplay{
		Replay: informers.Replay{Verb: "resync", Every: 100 * time.Millisecond, Sides: []informers.Side{
			byWatchList, {Label: clientGo + ", jittered", Stretch: 1.3}, byWeir,
		}},
		prepare: func(o *informers.Options) { o.Period = resyncPeriod },
	},
	curve: callRate,
	figures: []figures.Figure{
		figures.New("busiestPer100Millis", "busiest 100 ms", figures.Count), figures.New("deliveries", "calls in a period", figures.Count),
		figures.New("requests", "requests", figures.Count), figures.New("cpuSeconds", "CPU", figures.Seconds),
	},
}

var relist = incident{
	Name: "relist", Title: "In three relists of {pods} unchanged pods, client-go peaks at {client-go} of memory, Weir at {Weir}",
	Text: "A watch whose resourceVersion is compacted ends with 410 Expired, and the informer lists again. client-go decodes the whole state a second time while it still has the first, " +
		"replaces its store, and sends the handlers an update of each object, changed or not.",
	Level: "Weir compares each object's bytes with the stored ones, and reports only differences. Here there are none.",
	replay: informerReplay{
		Replay:  informers.Replay{Verb: "relist", Every: 50 * time.Millisecond, Sides: []informers.Side{byList, byWatchList, byDropIn, byWeir}},
		prepare: func(o *informers.Options) { o.Relists = 3 },
	},
	curve: residentMemory,
	figures: []figures.Figure{
		figures.New("peakRSSBytes", "peak RSS", figures.Bytes), figures.New("cpuSeconds", "CPU a relist", figures.Seconds),
		figures.New("events", "events a relist", figures.Count),
	},
}

var slowHandler = incident{
	Name: "slow-handler", Title: "Behind a blocked handler, with 2,000 updates per second of {pods} pods, client-go's live heap reaches {client-go}, Weir's {Weir}",
	Text: "client-go queues each event for each handler, with the old and the new object, in an unbounded buffer. If a handler blocks on a lock or a slow request, the buffer grows until the " +
		"process is killed.",
	Level: "Weir's handlers are cursors over one log of changes. A new change of an object replaces the change that the handler has not received yet, so the number of objects limits the number of pending changes.",
	replay: informerReplay{
		Replay:  informers.Replay{Verb: "blocked", Every: 50 * time.Millisecond, Sides: []informers.Side{byWatchList, byDropIn, byWeir}},
		prepare: func(o *informers.Options) { o.Duration = blockedFor },
	},
	curve: liveHeap,
	figures: []figures.Figure{
		figures.New("growthBytes", "heap grown", figures.Bytes), figures.New("events", "events received", figures.Count),
		figures.New("otherHandlerEvents", "events of the other handler", figures.Count), figures.New("peakRSSBytes", "peak RSS", figures.Bytes),
	},
}
