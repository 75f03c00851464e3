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
	key     string // in clients.byName
	name    Client
	serial  int64 // distinguishes it from an evicted client with the same name
	weight  int64 // see clients
	ranked  int64 // the weight by which the heap has ordered it, at most weight
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
	via = bounded(via)
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
	return append(dst, bounded(e.User)...)
}

// appendAgent appends the program of a user agent and its version: the text before the platform in
// parentheses, and the text after the commit, which distinguishes clients of one program, such as
// leader-election.
func appendAgent(dst, agent []byte) []byte {
	agent = agent[:min(len(agent), 4*maxName)]
	name, rest, _ := bytes.Cut(agent, []byte(" ("))
	dst = append(dst, bounded(name)...)
	if _, rest, ok := bytes.Cut(rest, []byte(") kubernetes/")); ok {
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			dst = append(dst, bounded(rest[i:])...)
		}
	}
	return dst
}

// target names what a request is about. Its bytes are valid until the next call of set.
type target struct {
	resource []byte // kubectl's name, with the subresource; "-" if the request is about no resource
	object   []byte // namespace/name
	key      []byte // both, with a zero byte between them
	hash     uint64 // of object
}

func (t *target) set(o evidence.Object) {
	key := t.key[:0]
	if len(o.Resource) == 0 {
		key = append(key, '-')
	} else {
		key = append(key, bounded(o.Resource)...)
		if len(o.Group) > 0 {
			key = append(append(key, '.'), bounded(o.Group)...)
		}
		if len(o.Subresource) > 0 {
			key = append(append(key, '/'), bounded(o.Subresource)...)
		}
	}
	end := len(key)
	key = append(append(append(append(key, 0), bounded(o.Namespace)...), '/'), bounded(o.Name)...)
	*t = target{key[:end], key[end+1:], key, hash(key[end+1:])}
}

// bounded returns at most maxName bytes of a name.
func bounded(name []byte) []byte { return name[:min(len(name), maxName)] }

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

// byWeight is a heap by the ranked weights. Its first client has the least weight if its ranked
// weight is its weight.
type byWeight []*client

func (h byWeight) Len() int           { return len(h) }
func (h byWeight) Less(i, j int) bool { return h[i].ranked < h[j].ranked }
func (h byWeight) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byWeight) Push(x any)        { *h = append(*h, x.(*client)) }
func (h *byWeight) Pop() any          { panic("doctor: clients are replaced, not removed") }

// find returns the client of an event, and adds the weight to it. A new client beyond the limit
// replaces the one with the least weight, and inherits that weight.
func (cs *clients) find(e *evidence.Event, weight int64) *client {
	cs.key = append(appendUser(cs.key[:0], e), 0)
	user := len(cs.key) - 1
	cs.key = appendAgent(cs.key, e.Agent)
	c := cs.byName[string(cs.key)]
	if c == nil {
		if len(cs.least) < cs.limit {
			c = &client{usages: map[string]*usage{}}
			heap.Push(&cs.least, c)
		} else {
			c = cs.evict()
		}
		cs.serial++
		c.serial, c.key = cs.serial, string(cs.key)
		c.name = Client{User: c.key[:user], Agent: c.key[user+1:]}
		cs.byName[c.key] = c
	}
	c.impersonatedBy(e.Via)
	c.weight += weight
	return c
}

// evict returns the client with the least weight, without anything but that weight.
func (cs *clients) evict() *client {
	c := cs.least[0]
	for ; c.ranked < c.weight; c = cs.least[0] {
		c.ranked = c.weight
		heap.Fix(&cs.least, 0)
	}
	delete(cs.byName, c.key)
	cs.usages -= len(c.usages)
	cs.pushed++
	cs.gone.add(c.total)
	clear(c.usages)
	*c = client{weight: c.weight, ranked: c.ranked, usages: c.usages}
	return c
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
