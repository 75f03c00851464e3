package api

import (
	"fmt"
	"time"
)

// Effect is what a fault does to a request.
type Effect uint8

const (
	Delay          Effect = iota + 1 // D passes before the server looks
	Slow                             // D passes between the look and the answer
	Answer                           // the answer is of code N
	ErrorEvent                       // after M events, an ERROR event of code N
	Refuse                           // no connection
	Hang                             // no answer
	Cut                              // the connection breaks after N bytes
	End                              // the answer ends after N bytes, as if it were complete
	Stall                            // after N bytes nothing comes any more; for D, if that is not 0
	Repeat                           // after each event the last N events come again, itself included
	NoBookmarks                      // not even the one that ends initial events
	OftenBookmarks                   // one each D
	Page                             // 200, and a page for humans
	Pieces                           // no more than N bytes come at a time
	EndIdle                          // a WATCH idle for D is ended, or cut if N is 1
	EndAged                          // so is one that is D old
)

var effectNames = [...]string{"", "delay", "slow", "answer", "error event", "refuse", "hang", "cut", "end", "stall", "repeat", "no bookmarks", "often bookmarks", "page", "pieces", "end idle", "end aged"}

func (e Effect) String() string { return effectNames[e] }

// Rule is a fault: what happens to which requests.
type Rule struct {
	Client, Server int // -1: any
	Ask            Ask
	Effect         Effect
	N, M           int
	D              time.Duration
	// Times is how many requests it happens to; 0: no bound.
	Times int
	// Until is when it ends; 0: never.
	Until time.Duration
	// Bound restricts the fault to requests with the resourceVersion of the first request that it
	// meets.
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

// rule is a Rule at work.
type rule struct {
	Rule
	met     bool
	version string
	times   int
	hits    int
}

// AsksForLess reports whether the fault is 429, which clients answer with patience.
func (r Rule) AsksForLess() bool { return r.N == 429 && (r.Effect == Answer || r.Effect == ErrorEvent) }

// AddRule begins a fault.
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

// plan is what the faults make of one request: by effect, the rule that applies.
type plan [EndAged + 1]Rule

// has reports whether some rule has an effect on the request.
func (p *plan) has(e Effect) bool { return p[e].Effect != 0 }

// plan finds out what happens to a request. The delays of several rules add up, and the earliest
// cut or end counts. Of other effects the last rule counts. The caller holds the lock.
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

// Blocks reports whether the fault may keep a request from achieving what it is for.
func (r Rule) Blocks() bool {
	switch r.Effect {
	case Answer, ErrorEvent, Refuse, Hang, Cut, End, Page:
		return true
	case Stall:
		return r.D == 0 || r.D >= time.Minute // so long a client waits for the next byte
	case Delay, Slow:
		return r.D >= 20*time.Second
	case EndIdle, EndAged:
		return r.D < 2*time.Second // a WATCH that is so short, and brings nothing, looks refused
	}
	return false
}

// BlocksAlways reports whether the fault keeps requests from bringing anything at all.
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

// Lasting returns the faults that a client's requests may meet for ever, where it is routed to now.
// A fault that is bound to a resourceVersion counts until it has met a request, and then only if
// that version is the newest, or if it is 429.
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

// Bookmarks reports whether watches get bookmarks now: every server sends them, no fault of
// NoBookmarks has met a request, and no front end ends watches before.
func (c *Cluster) Bookmarks(cl *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rules {
		if r.Effect == NoBookmarks && r.hits > 0 { // it holds for as long as that watch lasts
			return false
		}
	}
	for _, s := range c.servers {
		if s.Spec.Bookmarks < 0 {
			return false
		}
		for _, r := range c.rules {
			often := max(s.Spec.Bookmarks, defaultBookmarks) // those of a replica come by default
			if r.Forever() && r.EndsStreams() && r.D <= often {
				return false
			}
		}
	}
	return true
}

// EndsStreams reports whether the fault is a front end that ends WATCHes before their time.
func (r Rule) EndsStreams() bool { return r.Effect == EndIdle || r.Effect == EndAged }
