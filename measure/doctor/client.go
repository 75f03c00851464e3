package doctor

import (
	"bytes"
	"container/heap"
	"strings"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

// maxName bounds the names of users and user agents, which clients choose.
const maxName = 160

// nodes is the user that all nodes count as. Each node is a user, but all run the same programs.
const nodes = "system:node:*"

// Client names a client.
type Client struct {
	User  string `json:"user"`
	Agent string `json:"agent"` // the program and its version
	// Via is the user that authenticated and impersonated User, such as a proxy.
	Via string `json:"via,omitempty"`
}

// String returns the client's name for people: its program and its user.
func (c Client) String() string {
	user := c.User
	if c.Via != "" {
		user += ", via " + c.Via
	}
	if c.Agent == "" {
		return user
	}
	return c.Agent + " (" + user + ")"
}

// client has the counts of one client.
type client struct {
	name    Client
	serial  int64 // distinguishes it from an evicted client with the same name
	weight  int64 // see clients
	at      int   // in the heap
	total   Totals
	places  distinct
	starts  []int64 // when it started; see noteStart
	changed int64   // objects that it created or deleted

	usages   map[string]*usage
	listTime series // milliseconds that its LISTs had seats; see Doctor.clock
	listPeak *peak  // the most of them within a second; nil if there were none
}

// isKubectl reports whether the client is kubectl, which has neither informers nor replicas.
func (c Client) isKubectl() bool { return strings.HasPrefix(c.Agent, "kubectl/") }

// andOthers follows the name of the first user that impersonates a client's user.
const andOthers = " and others"

// impersonatedBy records the user that authenticated for a request of the client.
func (c *client) impersonatedBy(via []byte) {
	via = via[:min(len(via), maxName)]
	switch first, several := strings.CutSuffix(c.name.Via, andOthers); {
	case len(via) == 0 || first == string(via):
	case first == "":
		c.name.Via = string(via)
	case !several:
		c.name.Via += andOthers
	}
}

// appendUser appends the user that an event counts for.
func appendUser(dst []byte, e *evidence.Event) []byte {
	if bytes.HasPrefix(e.User, []byte("system:node:")) {
		return append(dst, nodes...)
	}
	return append(dst, e.User[:min(len(e.User), maxName)]...)
}

// appendAgent appends the program of a user agent and its version: the text before the platform in
// parentheses, and the text after the commit, which distinguishes clients of one program, such as
// leader-election.
func appendAgent(dst, agent []byte) []byte {
	agent = agent[:min(len(agent), 4*maxName)]
	name, rest, _ := bytes.Cut(agent, []byte(" ("))
	dst = append(dst, name[:min(len(name), maxName)]...)
	if _, rest, ok := bytes.Cut(rest, []byte(") kubernetes/")); ok {
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			dst = append(dst, rest[i:min(len(rest), i+maxName)]...)
		}
	}
	return dst
}

// appendResource appends kubectl's name of the resource, with the subresource, or "-" if the
// request is not about a resource.
func appendResource(dst []byte, o evidence.Object) []byte {
	if len(o.Resource) == 0 {
		return append(dst, '-')
	}
	dst = append(dst, o.Resource[:min(len(o.Resource), maxName)]...)
	if len(o.Group) > 0 {
		dst = append(append(dst, '.'), o.Group[:min(len(o.Group), maxName)]...)
	}
	if len(o.Subresource) > 0 {
		dst = append(append(dst, '/'), o.Subresource[:min(len(o.Subresource), maxName)]...)
	}
	return dst
}

const (
	// maxClients bounds the clients that are counted separately. If there are more, those with the
	// most requests stay (Space-Saving): a client with more than a 2,048th of all weight is among
	// them.
	maxClients = 2048
	// heavy is the weight of a LIST, or of a WATCH of less than a minute; refusedWeight is that of a
	// 429; any other request weighs 1. So a client that LISTs, restarts WATCHes or is refused is not
	// evicted by many harmless clients. Long WATCHes, of which each informer has eight an hour, weigh
	// 1.
	heavy         = 100
	refusedWeight = 10
	// maxUsages bounds the resources of all clients together: 85 MB, if each of them is LISTed in each
	// way. Each client can have minUsages, so that a client that asks for resources that do not exist
	// does not hide what others do.
	maxUsages = 16_384
	minUsages = 2
	// other is the resource that counts the requests for further resources. It has no findings,
	// because it mixes several resources.
	other = "(other resources)"
)

// clients has the counts of each client, of at most limit.
type clients struct {
	limit  int
	byName map[string]*client
	least  byWeight
	usages int
	gone   Totals // of evicted clients
	pushed int64
	serial int64
	key    []byte
}

func newClients(limit int) clients { return clients{limit: limit, byName: map[string]*client{}} }

// byWeight is a heap. The first client has the least weight.
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

// find returns the client of an event, and adds the weight to it. A new client beyond the limit
// replaces the one with the least weight, and inherits that weight.
func (cs *clients) find(e *evidence.Event, weight int64) *client {
	cs.key = append(appendUser(cs.key[:0], e), 0)
	user := len(cs.key) - 1
	cs.key = appendAgent(cs.key, e.Agent)
	c := cs.byName[string(cs.key)]
	if c == nil {
		cs.serial++
		c = &client{serial: cs.serial, name: Client{User: string(cs.key[:user]), Agent: string(cs.key[user+1:])}, usages: map[string]*usage{}}
		if len(cs.least) >= cs.limit {
			c.weight = cs.evict()
		}
		cs.byName[string(cs.key)] = c
		heap.Push(&cs.least, c)
	}
	c.impersonatedBy(e.Via)
	c.weight += weight
	heap.Fix(&cs.least, c.at)
	return c
}

// evict removes the client with the least weight, and returns that weight.
func (cs *clients) evict() int64 {
	c := heap.Pop(&cs.least).(*client)
	delete(cs.byName, c.name.User+"\x00"+c.name.Agent)
	cs.usages -= len(c.usages)
	cs.pushed++
	cs.gone.add(c.total)
	return c.weight
}

// usage returns what a client does with a resource. It does not retain the bytes of the name.
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
