package doctor

import (
	"bytes"
	"container/heap"
	"strings"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

// maxName limits the stored length of users and user agents, because clients choose them.
const maxName = 160

// nodes is one name for all nodes. Each node is a separate user, but all run the same programs, so
// doctor counts their requests together.
const nodes = "system:node:*"

// Client identifies a client.
type Client struct {
	User  string `json:"user"`
	Agent string `json:"agent"` // the program and its version
	// Via is the user that authenticated and impersonated User, for example a proxy.
	Via string `json:"via,omitempty"`
}

// String returns the client's program and user, for people.
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

// client contains the counts of one client.
type client struct {
	key     string // its key in clients.byName
	name    Client
	serial  int64 // differs from that of an evicted client with the same name
	weight  int64 // see clients
	ranked  int64 // the weight by which the heap last ordered it, at most weight
	total   Totals
	places  distinct
	starts  []int64 // when the client started; see noteStart
	changed int64   // how many objects the client created or deleted

	usages map[string]*usage
	// listTime contains, for each bucket of Doctor.clock, how many milliseconds the client's LISTs had
	// seats of priority and fairness.
	listTime series
	listPeak *peak // of its LISTs that had seats; nil if there were none
}

// isKubectl reports whether the client is kubectl, which has no informers and runs no replicas.
func (c Client) isKubectl() bool { return strings.HasPrefix(c.Agent, "kubectl/") }

// andOthers follows the first impersonating user in Via if several users impersonate the client's
// user.
const andOthers = " and others"

// impersonatedBy records in Via the user that authenticated for a request of the client.
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

// appendUser appends the user for which doctor counts an event. For any node, this is the constant
// nodes.
func appendUser(dst []byte, e *evidence.Event) []byte {
	if bytes.HasPrefix(e.User, []byte("system:node:")) {
		return append(dst, nodes...)
	}
	return append(dst, bounded(e.User)...)
}

// appendAgent appends the program and version of a user agent, without the platform and the commit.
// It also appends the text after the commit, such as leader-election, which distinguishes the
// clients of one program.
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

// target describes what a request is about. Its bytes are valid until the next call of set.
type target struct {
	resource []byte // kubectl's name, with the subresource; "-" if there is none
	object   []byte // namespace/name
	key      []byte // resource and object, with a zero byte between them
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
	// maxClients limits the number of clients that are counted separately. If there are more, the
	// clients with the most weight stay (Space-Saving): a client with more than a 2,048th of all
	// weight is never evicted.
	maxClients = 2048
	// heavy is the weight of a LIST, and of a WATCH that lasts less than a minute. refusedWeight is
	// the weight of a request that is refused with 429. All other requests have weight 1, also long
	// WATCHes: an informer sends only eight of them an hour. Therefore many harmless clients cannot
	// evict a client that LISTs, restarts WATCHes or is refused.
	heavy         = 100
	refusedWeight = 10
	// maxUsages limits the number of resources of all clients together. The counts of these resources
	// use up to 85 MB, if each resource is LISTed in every way. Each client may have minUsages
	// resources in any case. So a client that asks for nonexistent resources does not hide what other
	// clients do.
	maxUsages = 16_384
	minUsages = 2
	// other is the name under which a client's requests for all further resources are counted. doctor
	// looks for no findings in it, because it mixes several resources.
	other = "(other resources)"
)

// clients contains the counts of each client, for at most limit clients.
type clients struct {
	limit  int
	byName map[string]*client
	least  byWeight
	usages int
	gone   Totals // the totals of evicted clients
	pushed int64
	serial int64
	key    []byte
}

func newClients(limit int) clients { return clients{limit: limit, byName: map[string]*client{}} }

// byWeight is a heap of clients, ordered by their ranked weights, which may be lower than their
// weights. If both weights of the first client are equal, no client has less weight.
type byWeight []*client

func (h byWeight) Len() int           { return len(h) }
func (h byWeight) Less(i, j int) bool { return h[i].ranked < h[j].ranked }
func (h byWeight) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byWeight) Push(x any)        { *h = append(*h, x.(*client)) }
func (h *byWeight) Pop() any          { panic("doctor: clients are replaced, not removed") }

// find returns the client of an event and adds weight to it. If the client is new and cs.limit
// clients are counted already, the new client replaces the client with the least weight, and
// inherits that weight.
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

// evict removes the client with the least weight, and returns it so that find can reuse it for a
// new client. The returned client keeps only its weight.
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

// usage returns the counts of a client's requests for a resource. It does not retain the bytes of
// resource.
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
