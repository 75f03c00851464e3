package api

import (
	"fmt"
	"time"
)

// Effect says what a fault does to a request.
type Effect uint8

const (
	Delay          Effect = iota + 1 // the server waits for D before it reads its state
	Slow                             // the server waits for D after it has read its state
	Answer                           // the server responds with status code N
	ErrorEvent                       // after M events, the server sends an ERROR event with code N
	Refuse                           // the connection is refused
	Hang                             // the request gets no response
	Cut                              // the connection breaks after N bytes
	End                              // the response ends after N bytes, as if it were complete
	Stall                            // after N bytes, no bytes arrive for D; 0 means forever
	Repeat                           // after each event, the server sends the last N events again
	NoBookmarks                      // no bookmarks, not even the one that ends initial events
	OftenBookmarks                   // the server sends a bookmark every D
	Page                             // the response is a web page with code 200
	Pieces                           // at most N bytes arrive at a time
	EndIdle                          // a WATCH that is idle for D ends; it breaks if N is 1
	EndAged                          // a WATCH ends D after its start; it breaks if N is 1
)

var effectNames = [...]string{"", "delay", "slow", "answer", "error event", "refuse", "hang", "cut", "end", "stall", "repeat", "no bookmarks", "often bookmarks", "page", "pieces", "end idle", "end aged"}

func (e Effect) String() string { return effectNames[e] }

// Rule describes a fault: which requests it affects, and what it does to them.
type Rule struct {
	Client, Server int // indexes; -1 means all
	Ask            Ask
	Effect         Effect
	N, M           int
	D              time.Duration
	// Times is the number of requests that the fault affects. 0 means no limit.
	Times int
	// Until is the time at which the fault ends. 0 means that it does not end.
	Until time.Duration
	// Bound restricts the fault to the resourceVersion of the first request that the fault affects.
	Bound bool
}

// Forever reports whether the fault never ends.
func (r Rule) Forever() bool { return r.Times == 0 && r.Until == 0 }

func (r Rule) String() string {
	s := fmt.Sprintf("%v of %v", r.Effect, r.Ask)
	if r.N != 0 || r.M != 0 {
		s += fmt.Sprintf(" N=%d M=%d", r.N, r.M)
	}
	if r.D != 0 {
		s += fmt.Sprintf(" D=%v", r.D)
	}
	if r.Client >= 0 {
		s += fmt.Sprintf(" client=%d", r.Client)
	}
	if r.Server >= 0 {
		s += fmt.Sprintf(" server=%d", r.Server)
	}
	if r.Bound {
		s += " for one resourceVersion"
	}
	if r.Forever() {
		s += " for ever"
	} else if r.Times > 0 {
		s += fmt.Sprintf(" times=%d", r.Times)
	}
	if r.Until > 0 {
		s += fmt.Sprintf(" until=%v", r.Until)
	}
	return s
}

// rule is a Rule that is in effect. met is true when it has affected a request, whose
// resourceVersion is version. times is the number of requests that it may still affect. hits is the
// number of requests that it has affected.
type rule struct {
	Rule
	met     bool
	version string
	times   int
	hits    int
}

// AsksForLess reports whether the fault is status 429, with which a server asks clients to wait.
func (r Rule) AsksForLess() bool { return r.N == 429 && (r.Effect == Answer || r.Effect == ErrorEvent) }

// AddRule puts a fault into effect.
func (c *Cluster) AddRule(r Rule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = append(c.rules, &rule{Rule: r, times: r.Times})
}

func (r *rule) applies(client int, s *Server, q *request, now time.Duration) bool {
	if r.Client >= 0 && r.Client != client || r.Server >= 0 && r.Server != s.Index || r.Ask&q.ask == 0 ||
		r.Until > 0 && now >= r.Until || r.Times > 0 && r.times == 0 {
		return false
	}
	if !r.Bound {
		return true
	}
	if !r.met {
		r.met, r.version = true, q.rv
	}
	return r.version == q.rv
}

// plan contains the faults that affect one request: the Rule for each Effect, or the zero Rule.
type plan [EndAged + 1]Rule

// has reports whether a fault with the effect e affects the request.
func (p *plan) has(e Effect) bool { return p[e].Effect != 0 }

// plan returns the faults that affect a request, and counts the request for their rules. If several
// rules have the same effect, the delays of Delay and Slow are added, and the earliest Cut or End
// applies. For any other effect, the last rule applies. The caller must hold c.mu.
func (c *Cluster) plan(client int, s *Server, q *request) *plan {
	p := &plan{}
	now := c.Now()
	for _, r := range c.rules {
		if !r.applies(client, s, q, now) {
			continue
		}
		if r.times > 0 {
			r.times--
		}
		r.hits++
		c.logf("fault: %v, on %v", r.Rule, q)
		was := p[r.Effect]
		p[r.Effect] = r.Rule
		switch r.Effect {
		case Delay, Slow:
			p[r.Effect].D += was.D
		case Cut, End:
			if was.Effect != 0 {
				p[r.Effect].N = min(was.N, r.N)
			}
		}
	}
	return p
}

// Blocks reports whether the fault may make a request fail, or may delay it so long that a client
// gives up.
func (r Rule) Blocks() bool {
	switch r.Effect {
	case Answer, ErrorEvent, Refuse, Hang, Cut, End, Page:
		return true
	case Stall:
		return r.D == 0 || r.D >= time.Minute // clients wait less than a minute for the next byte
	case Delay, Slow:
		return r.D >= 20*time.Second
	case EndIdle, EndAged:
		return r.D < 2*time.Second // if a WATCH without events is so short, a client considers it refused
	}
	return false
}

// BlocksAlways reports whether every request that the fault affects gets no data at all.
func (r Rule) BlocksAlways() bool {
	switch r.Effect {
	case Answer, Refuse, Hang, Page:
		return true
	case ErrorEvent:
		return r.M == 0
	case Cut:
		return r.N == 0
	}
	return false
}

// Lasting returns the faults that never end and may affect requests of the client to its current
// server. A Bound fault that has not affected a request yet is included. After that, it is included
// only if its resourceVersion is still the newest, or if it is a 429.
func (c *Cluster) Lasting(cl *Client) []Rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.history.Era()
	var all []Rule
	for _, r := range c.rules {
		if !r.Forever() || r.Client >= 0 && r.Client != cl.Index || r.Server >= 0 && r.Server != cl.server.Index {
			continue
		}
		if r.Bound && r.met && !r.AsksForLess() && r.version != e.Format(e.Head()) {
			continue
		}
		all = append(all, r.Rule)
	}
	return all
}

// Bookmarks reports whether the client's watches now receive bookmarks. That is so if every server
// sends them, no fault with NoBookmarks has affected a request, and no front end ends watches
// before the first bookmark.
func (c *Cluster) Bookmarks(cl *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rules {
		if r.Effect == NoBookmarks && r.hits > 0 { // an affected watch receives none until it ends
			return false
		}
	}
	for _, s := range c.servers {
		if s.Spec.Bookmarks < 0 {
			return false
		}
		for _, r := range c.rules {
			// a replica of a chain uses the default interval
			often := max(s.Spec.Bookmarks, defaultBookmarks)
			if r.Forever() && r.EndsStreams() && r.D <= often {
				return false
			}
		}
	}
	return true
}

// EndsStreams reports whether the fault is a front end (a proxy) that ends WATCHes early.
func (r Rule) EndsStreams() bool { return r.Effect == EndIdle || r.Effect == EndAged }
