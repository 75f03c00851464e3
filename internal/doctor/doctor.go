// Package doctor finds out who makes an API server work, from its audit logs: it counts what each
// client asks for, and names those whose way of asking costs more than what they need.
package doctor

import (
	"github.com/weirproject/weir/internal/audit"
	"github.com/weirproject/weir/internal/cost"
)

// Options are what a Doctor is told. The zero value has no sizes.
type Options struct {
	// Objects has how many objects there are of a resource, by its name as kubectl has it, such as
	// pods or deployments.apps. Findings about those are ordered by the objects that were read.
	Objects map[string]int64
	// Bytes has how large an object of a resource is, as it is stored.
	Bytes map[string]int64
	// ObjectsAsked and BytesAsked are the resources whose number and size a server was asked for.
	ObjectsAsked, BytesAsked map[string]bool
	// Resident is the memory of the API server, if it is known: peaks are told as a whole then, and
	// else as what is added.
	Resident int64
	// Model is what costs are predicted by; nil: none are.
	Model *cost.Model
}

// Doctor counts events and says what they come to. It holds at most 150 MB, however long the logs
// are and however many clients there are. Make one with New. It is not safe for concurrent use.
type Doctor struct {
	options Options
	clock   clock
	clients clients
	open    openWatches
	census  census
	objects objects

	requests, lists, refused series // of all clients
	changed                  series // objects that were created or deleted
	total                    Totals
	first, last              int64  // microseconds since 1970; 0 before the first event
	resource                 []byte // of the event that is being counted
}

// Totals count the requests of all clients, or of one.
type Totals struct {
	Requests    int64   `json:"requests"`
	Lists       int64   `json:"lists"`
	Watches     int64   `json:"watches"`
	Refused     int64   `json:"refused"` // 429, by a server that has too much to do
	Failed      int64   `json:"failed"`  // 5xx
	ListSeconds float64 `json:"listSeconds"`
}

// New makes a Doctor that has seen nothing.
func New(o Options) *Doctor {
	return &Doctor{options: o, clients: newClients(maxClients), open: openWatches{byID: map[uint64]openWatch{}}, census: census{}, objects: objects{byName: map[string]*objectWrites{}}}
}

// Add counts an event, of which it keeps no bytes. A request counts once: when its response is
// complete, or, for a WATCH that goes on at the end of the log, when it has started. Events should
// come in the order of their stages' times; a few seconds do not matter.
func (d *Doctor) Add(e *audit.Event) {
	switch string(e.Stage) {
	case audit.StageResponseComplete:
	case audit.StageResponseStarted:
		if verbOf(e.Verb) == verbWatch {
			d.started(e)
		}
		return
	default:
		return
	}
	if d.first == 0 {
		d.first = e.Staged
	}
	d.last = max(d.last, e.Staged)
	verb, bucket := verbOf(e.Verb), d.clock.bucket(e.Staged)
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
	d.resource = appendResource(d.resource[:0], e.Object)
	if starts := d.clients.usage(c, d.resource).add(e, verb); (starts || moved) && e.Code < 400 {
		c.noteStart(e.Begun())
	}
	d.census.add(e, verb)
	switch verb {
	case verbWatch:
		if e.Code < 400 {
			d.census.watched(string(d.resource), selectionOf(e, audit.ParseQuery(e.URI)), d.since(e.Begun()))
		}
	case verbCreate, verbUpdate, verbPatch, verbDelete:
		if ofObject(e.Object.Subresource) && string(e.User) != server {
			d.objects.add(e, c, d.resource)
		}
	}
}

// since returns for how many seconds what began at a time has lasted, while there was a log.
func (d *Doctor) since(begun int64) float64 { return float64(d.last-max(begun, d.first)) / 1e6 }

// count counts an event in totals.
func (d *Doctor) count(t *Totals, e *audit.Event, verb verb) {
	t.Requests++
	switch verb {
	case verbList:
		t.Lists++
		t.ListSeconds += e.Latency().Seconds()
	case verbWatch:
		t.Watches++
	}
	switch {
	case e.Refused():
		t.Refused++
	case e.Code >= 500:
		t.Failed++
	}
}
