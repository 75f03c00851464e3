// Package doctor finds the clients that load an API server. From audit logs it counts the requests
// of each client, and names clients whose requests cost more than necessary. From metrics, which do
// not name clients, it finds only the resources of such requests.
package doctor

import (
	"cmp"

	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// Options contain information that is not in the logs. The zero value has no sizes.
type Options struct {
	// Objects is the number of objects of a resource, by kubectl's name, such as pods or
	// deployments.apps. Findings about these resources are ordered by the number of objects that the
	// server read.
	Objects map[string]int64
	// Bytes is the stored size of one object of a resource, in bytes.
	Bytes map[string]int64
	// ObjectsAsked contains the resources for which a server reported the number of objects.
	// BytesAsked contains the resources for which a server reported the size of an object.
	ObjectsAsked, BytesAsked map[string]bool
	// Resident is the memory of the API server, in bytes; 0 if unknown. Predicted peaks include it.
	Resident int64
	// Model predicts costs. If it is nil, doctor predicts no costs.
	Model *cost.Model
}

// Doctor counts events and reports findings. It uses at most 150 MB for logs of any length and any
// number of clients. Make a Doctor with New. A Doctor is not safe for concurrent use.
type Doctor struct {
	options Options
	clock   clock
	clients clients
	open    openWatches
	census  census
	objects objects

	requests, lists, refused series // of all clients
	changed                  series // how many objects were created or deleted
	total                    Totals
	first, last              int64  // microseconds since 1970; 0 before the first event
	target                   target // of the current event
}

// Totals count the requests of all clients, or of one client.
type Totals struct {
	Requests    int64   `json:"requests"`
	Lists       int64   `json:"lists"`
	Watches     int64   `json:"watches"`
	Refused     int64   `json:"refused"` // 429, by an overloaded server
	Failed      int64   `json:"failed"`  // 5xx
	ListSeconds float64 `json:"listSeconds"`
}

// New returns a Doctor without events.
func New(o Options) *Doctor {
	return &Doctor{options: o, clients: newClients(maxClients), open: openWatches{byID: map[uint64]openWatch{}}, census: census{}, objects: objects{byName: map[string]*objectWrites{}}}
}

// Add counts an event. It does not retain the event's bytes. Each request counts once, when its
// response is complete. A WATCH that has started and is still open at the end of the log counts
// too. Callers should add events in the order of their stages' times; an error of a few seconds is
// harmless.
func (d *Doctor) Add(e *evidence.Event) {
	switch string(e.Stage) {
	case evidence.StageResponseComplete:
	case evidence.StageResponseStarted:
		if verbOf(e.Verb) == verbWatch {
			d.started(e)
		}
		return
	default:
		return
	}
	d.first = cmp.Or(d.first, e.Staged)
	d.last = max(d.last, e.Staged)
	verb, bucket := verbOf(e.Verb), d.clock.bucket(e.Staged)
	var q evidence.Query
	if verb == verbList || verb == verbWatch {
		q = evidence.ParseQuery(e.URI)
	}
	c := d.clients.find(e, verb.weight(e))
	d.count(&d.total, e, verb)
	d.count(&c.total, e, verb)
	d.requests.add(&d.clock, bucket, 1)
	if e.Refused() {
		d.refused.add(&d.clock, bucket, 1)
	}
	if verb == verbWatch {
		d.open.ended(e)
	}
	if verb == verbList {
		d.lists.add(&d.clock, bucket, 1)
		c.addSeat(&d.clock, e)
	}
	if changesObjects(e, verb) {
		d.changed.add(&d.clock, bucket, 1)
		c.changed++
	}
	moved := c.places.add(e.Place()) && c.total.Requests > 1
	d.target.set(e.Object)
	if starts := d.clients.usage(c, d.target.resource).add(e, verb, q, d.target.hash); (starts || moved) && e.Code < 400 {
		c.noteStart(e.Begun())
	}
	d.census.add(e, verb, &d.target)
	switch verb {
	case verbWatch:
		if e.Code < 400 {
			d.census.watched(string(d.target.resource), selectionOf(e, q), d.since(e.Begun()))
		}
	case verbCreate, verbUpdate, verbPatch, verbDelete:
		if ofObject(e.Object.Subresource) && string(e.User) != server {
			d.objects.add(e, c, &d.target)
		}
	}
}

// since returns the seconds from begun to the end of the log. If begun is before the start of the
// log, it returns the seconds since that start.
func (d *Doctor) since(begun int64) float64 { return float64(d.last-max(begun, d.first)) / 1e6 }

// count adds an event to totals.
func (d *Doctor) count(t *Totals, e *evidence.Event, verb verb) {
	t.Requests++
	switch verb {
	case verbList:
		t.Lists++
		t.ListSeconds += e.Latency().Seconds()
	case verbWatch:
		t.Watches++
	}
	if e.Refused() {
		t.Refused++
	} else if e.Code >= 500 {
		t.Failed++
	}
}
