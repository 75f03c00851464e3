package doctor

import (
	"bytes"
	"strings"

	"github.com/weirproject/weir/internal/audit"
)

// maxName bounds a user's and a user agent's name, which clients choose.
const maxName = 160

// nodes is whom all nodes are taken for: each is a user of its own, with the same programs.
const nodes = "system:node:*"

// Client names a client.
type Client struct {
	User  string `json:"user"`
	Agent string `json:"agent"` // the program and its version
	// Via is who authenticated where that was another user, who impersonates User: a proxy.
	Via string `json:"via,omitempty"`
}

// String returns the client's name for people: its program, and the user unless that says the same.
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

// client is what is known of one client.
type client struct {
	name    Client
	serial  int64 // tells it from one of the same name that was pushed out
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

// isKubectl reports whether the client is kubectl, by hand or in a job: it has no informer, and no
// replicas.
func (c Client) isKubectl() bool { return strings.HasPrefix(c.Agent, "kubectl/") }

// andOthers follows the first user who impersonates a client's user.
const andOthers = " and others"

// impersonatedBy notes who authenticated for a request of the client.
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
func appendUser(dst []byte, e *audit.Event) []byte {
	if bytes.HasPrefix(e.User, []byte("system:node:")) {
		return append(dst, nodes...)
	}
	return append(dst, e.User[:min(len(e.User), maxName)]...)
}

// appendAgent appends the program of a user agent and its version: what stands before the platform
// in parentheses, and what clients of one program call themselves behind the commit, such as
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

// appendResource appends the resource's name as kubectl has it, with the subresource. Requests of
// no resource are of "-".
func appendResource(dst []byte, o audit.Object) []byte {
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
