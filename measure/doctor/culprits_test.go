package doctor

import (
	"fmt"
	"time"
)

// culprits adds one client for each kind of finding, and returns the kind by the client's user.
func (w *world) culprits() map[string]string {
	kinds := map[string]string{}
	for _, c := range []struct {
		kind string
		add  func(request)
	}{
		{FindingPolling, w.poller}, {FindingResync, w.resyncer}, {FindingRelist, w.relister}, {FindingWatches, w.impatient},
		{FindingNodes, w.agents}, {FindingPart, w.seeker},
	} {
		kinds[account(c.kind)] = c.kind
		c.add(request{user: account(c.kind), agent: program(c.kind), ip: "10.9.0.1"})
	}
	return kinds
}

// jitter draws a time that is 3 % around d.
func (w *world) jitter(d time.Duration) time.Duration { return w.between(d-d*3/100, d+d*3/100) }

// poller LISTs all objects at an interval of 20 s to 5 minutes.
func (w *world) poller(r request) {
	r.verb, r.resource = "list", []string{"pods", "secrets", "configmaps"}[w.rnd.IntN(3)]
	r.query = []string{"", "limit=500", "resourceVersion=0"}[w.rnd.IntN(3)]
	every, at := w.between(20*time.Second, 5*time.Minute), w.between(0, days/2)
	for range 40 + w.rnd.IntN(200) {
		at += w.jitter(every)
		r.at, r.took = at, w.between(200*time.Millisecond, time.Second)
		w.do(r)
	}
}

// resyncer LISTs each namespace, or all objects once for each of its workers, every 6 to 12 hours.
func (w *world) resyncer(r request) {
	r.verb, r.resource, r.group = "list", "deployments", "apps"
	every, many, all := w.between(6*time.Hour, 12*time.Hour), 15+w.rnd.IntN(40), w.rnd.IntN(2) == 0
	for at := w.between(0, time.Hour); at < days; at += w.jitter(every) {
		for i := range many {
			if r.ns = fmt.Sprint("team-", i); all {
				r.ns = ""
			}
			r.at, r.took = at+w.between(0, 90*time.Second), w.between(100*time.Millisecond, 900*time.Millisecond)
			w.do(r)
		}
	}
}

// relister LISTs, WATCHes for some seconds, and LISTs again.
func (w *world) relister(r request) {
	r.resource = "ingresses"
	r.group = "networking.k8s.io"
	at := w.between(0, days/2)
	for range 40 + w.rnd.IntN(100) {
		r.at, r.verb, r.query, r.took = at, "list", "resourceVersion=0", w.between(100*time.Millisecond, time.Second)
		w.do(r)
		at += r.took
		r.at, r.verb, r.query, r.took = at, "watch", "resourceVersion=7&watch=true", w.between(2*time.Second, 40*time.Second)
		w.do(r)
		at += r.took + w.between(0, 5*time.Second)
	}
}

// impatient WATCHes with a deadline of half a minute, and resumes.
func (w *world) impatient(r request) {
	r.resource, r.verb = "services", "watch"
	at := w.between(0, days/2)
	for range 120 + w.rnd.IntN(200) {
		r.at, r.query, r.took = at, "resourceVersion=7&timeoutSeconds=30&watch=true", 30*time.Second
		w.do(r)
		at += r.took
	}
}

// agents LIST all pods from each of many nodes within an hour, while others are refused.
func (w *world) agents(r request) {
	r.verb, r.resource, r.query = "list", "pods", "resourceVersion=0"
	from := w.between(0, days-time.Hour)
	nodes := 40 + w.rnd.IntN(200)
	for i := range nodes {
		for range 1 + w.rnd.IntN(3) {
			r.ip = fmt.Sprintf("10.8.%d.%d", i/250, i%250)
			r.at, r.took = from+w.between(0, time.Hour), w.between(2*time.Second, 8*time.Second)
			w.do(r)
		}
	}
	v := request{user: account("victim"), agent: program("victim"), ip: "10.9.0.2", verb: "get", resource: "pods", ns: "shop", object: "web-0", code: 429}
	for range 120 {
		v.at = from + w.between(0, time.Hour)
		w.do(v)
	}
}

// seeker asks for the pods of one application or another, many times a minute.
func (w *world) seeker(r request) {
	r.verb, r.resource = "list", "pods"
	if w.rnd.IntN(2) == 0 {
		r.ns = "shop"
	}
	at, mean := w.between(0, days/2), float64(w.between(2*time.Second, 7*time.Second))
	for i := range 400 {
		at += time.Duration(w.rnd.ExpFloat64() * mean)
		r.at, r.query = at, fmt.Sprint("labelSelector=app%3Dweb-", i%7)
		w.do(r)
	}
}
