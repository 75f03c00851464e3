package api

import (
	"fmt"
	"time"
)

// Effect selects what a fault does to a request.
type Effect uint8

const (
	Delay          Effect = iota + 1 // the server waits for D before it reads its state
	Slow                             // the server waits for D between reading and answering
	Answer                           // the server answers with status code N
	ErrorEvent                       // after M events, the server sends an ERROR event with code N
	Refuse                           // the connection is refused
	Hang                             // the request gets no answer
	Cut                              // the connection breaks after N bytes
	End                              // the answer ends after N bytes, as if it were complete
	Stall                            // after N bytes, no bytes arrive for D; 0 means forever
	Repeat                           // after each event, the last N events are sent again
	NoBookmarks                      // no bookmarks, not even the one that ends initial events
	OftenBookmarks                   // a bookmark every D
	Page                             // the answer is 200 with a web page
	Pieces                           // at most N bytes arrive at a time
	EndIdle                          // a WATCH that is idle for D ends; it breaks if N is 1
	EndAged                          // a WATCH ends at age D; it breaks if N is 1
)

var effectNames = [...]string{"", "delay", "slow", "answer", "error event", "refuse", "hang", "cut", "end", "stall", "repeat", "no bookmarks", "often bookmarks", "page", "pieces", "end idle", "end aged"}

func (e Effect) String() string { return effectNames[e] }

// Rule describes a fault: which requests it affects, and how.
type Rule struct {
	Client, Server int // indexes; -1 means any
	Ask            Ask
	Effect         Effect
	N, M           int
	D              time.Duration
	// Times limits how many requests the fault affects. 0 means no limit.
	Times int
	// Until is when the fault ends. 0 means never.
	Until time.Duration
	// Bound restricts the fault to requests that have the same resourceVersion as the first request
	// that it affects.
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
	switch {
	case r.Forever():
		s += " for ever"
	case r.Times > 0:
		s += fmt.Sprintf(" times=%d", r.Times)
	}
	if r.Until > 0 {
		s += fmt.Sprintf(" until=%v", r.Until)
	}
	return s
}

// rule is an active Rule.
type rule struct {
	Rule
	met     bool
	version string
	times   int
	hits    int
}

// AsksForLess reports whether the fault is status 429, to which clients respond by waiting.
func (r Rule) AsksForLess() bool { return r.N == 429 && (r.Effect == Answer || r.Effect == ErrorEvent) }

// AddRule activates a fault.
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

// plan has the faults that affect one request: for each effect, the rule that applies.
type plan [EndAged + 1]Rule

// has reports whether some rule has the effect e on the request.
func (p *plan) has(e Effect) bool { return p[e].Effect != 0 }

// plan returns the faults of a request, and counts it for their rules. If several rules have the
// same effect, their delays add up, and the earliest cut or end applies. For other effects, the
// last rule applies. The caller holds the lock.
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

// Blocks reports whether the fault may make a request fail, or delay it so long that a client gives
// up.
func (r Rule) Blocks() bool {
	switch r.Effect {
	case Answer, ErrorEvent, Refuse, Hang, Cut, End, Page:
		return true
	case Stall:
		return r.D == 0 || r.D >= time.Minute // a client waits less than a minute for the next byte
	case Delay, Slow:
		return r.D >= 20*time.Second
	case EndIdle, EndAged:
		return r.D < 2*time.Second // a client takes so short a WATCH without events for a refused one
	}
	return false
}

// BlocksAlways reports whether the fault keeps every affected request from returning any data.
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

// Lasting returns the faults that never end and that can affect the client's requests to its
// current server. A fault that is bound to a resourceVersion counts before it has affected a
// request. After that it counts only if the resourceVersion is still the newest, or if the fault is
// 429.
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

// Bookmarks reports whether watches now receive bookmarks. That is so if every server sends them,
// no fault of NoBookmarks has affected a request, and no front end ends watches before the first
// bookmark.
func (c *Cluster) Bookmarks(cl *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rules {
		if r.Effect == NoBookmarks && r.hits > 0 { // the fault lasts as long as the affected watch
			return false
		}
	}
	for _, s := range c.servers {
		if s.Spec.Bookmarks < 0 {
			return false
		}
		for _, r := range c.rules {
			often := max(s.Spec.Bookmarks, defaultBookmarks) // a replica uses the default interval
			if r.Forever() && r.EndsStreams() && r.D <= often {
				return false
			}
		}
	}
	return true
}

// EndsStreams reports whether the fault is a front end that ends WATCHes early.
func (r Rule) EndsStreams() bool { return r.Effect == EndIdle || r.Effect == EndAged }
