package doctor

import (
	"container/heap"

	"github.com/weirproject/weir/internal/audit"
)

const (
	// maxClients bounds the clients that are told apart. Of more, those are kept that have asked
	// most (Space-Saving): one that has more than a 2,048th of all weight is among them.
	maxClients = 2048
	// heavy is the weight of a LIST, or of a WATCH of less than a minute; refusedWeight that of a
	// 429; any other request weighs 1. So many harmless clients do not push out one that LISTs,
	// begins WATCHes anew or is refused. Long WATCHes, of which each informer has eight an hour,
	// weigh no more than a GET.
	heavy         = 100
	refusedWeight = 10
	// maxUsages bounds the resources of all clients together: 85 MB, if each of them is LISTed in
	// each way. Each client can have minUsages, so that one that asks for more resources than there
	// are does not hide what others do.
	maxUsages = 16_384
	minUsages = 2
	// other is the resource that counts what is beyond. Nothing is found in it: what is regular
	// there is several resources taken for one.
	other = "(other resources)"
)

// clients holds what is known of each client, of at most limit.
type clients struct {
	limit  int
	byName map[string]*client
	least  byWeight
	usages int
	gone   Totals // of clients that were pushed out
	pushed int64
	serial int64
	key    []byte
}

func newClients(limit int) clients { return clients{limit: limit, byName: map[string]*client{}} }

// byWeight is a heap: the client with the least weight is the first.
type byWeight []*client

func (h byWeight) Len() int           { return len(h) }
func (h byWeight) Less(i, j int) bool { return h[i].weight < h[j].weight }
func (h byWeight) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *byWeight) Push(x any) {
	c := x.(*client)
	c.at = len(*h)
	*h = append(*h, c)
}
func (h *byWeight) Pop() any {
	c := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return c
}

// find returns the client of an event, and makes it heavier. A new one beyond the limit takes the
// place, and the weight, of the one with the least.
func (cs *clients) find(e *audit.Event, weight int64) *client {
	cs.key = append(appendUser(cs.key[:0], e), 0)
	user := len(cs.key) - 1
	cs.key = appendAgent(cs.key, e.Agent)
	c := cs.byName[string(cs.key)]
	if c == nil {
		cs.serial++
		c = &client{serial: cs.serial, name: Client{User: string(cs.key[:user]), Agent: string(cs.key[user+1:])}, usages: map[string]*usage{}}
		if len(cs.least) >= cs.limit {
			c.weight = cs.push()
		}
		cs.byName[string(cs.key)] = c
		heap.Push(&cs.least, c)
	}
	c.impersonatedBy(e.Via)
	c.weight += weight
	heap.Fix(&cs.least, c.at)
	return c
}

// push lets go of the client with the least weight, and returns that.
func (cs *clients) push() int64 {
	c := heap.Pop(&cs.least).(*client)
	delete(cs.byName, c.name.User+"\x00"+c.name.Agent)
	cs.usages -= len(c.usages)
	cs.pushed++
	cs.gone.add(c.total)
	return c.weight
}

// usage returns what a client does with a resource, whose name it keeps no bytes of.
func (cs *clients) usage(c *client, resource []byte) *usage {
	if u := c.usages[string(resource)]; u != nil {
		return u
	}
	name := string(resource)
	if cs.usages >= maxUsages-minUsages*cs.limit && len(c.usages) >= minUsages {
		if name = other; c.usages[name] != nil {
			return c.usages[name]
		}
	}
	u := &usage{resource: name}
	c.usages[name] = u
	cs.usages++
	return u
}

func (t *Totals) add(o Totals) {
	t.Requests += o.Requests
	t.Lists += o.Lists
	t.Watches += o.Watches
	t.Refused += o.Refused
	t.Failed += o.Failed
	t.ListSeconds += o.ListSeconds
}
