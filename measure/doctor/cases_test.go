package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// someone is a client of one machine.
func someone(name, verb, resource string) request {
	return request{user: account(name), agent: program(name), ip: "10.9.0.1", verb: verb, resource: resource}
}

// each does a request n times, at an interval.
func (w *world) each(n int, every time.Duration, r request, change func(i int, r *request)) {
	from := r.at
	for i := range n {
		one := r
		one.at = from + time.Duration(i)*every
		if change != nil {
			change(i, &one)
		}
		w.do(one)
	}
}

// machine gives each of n machines its turn.
func machine(n int) func(i int, r *request) {
	return func(i int, r *request) { r.ip = fmt.Sprint("10.7.0.", i%n) }
}

// loop LISTs and WATCHes for some seconds, n times, on a number of machines.
func (w *world) loop(n, machines int, every, lasting time.Duration) {
	r := someone("loop", "list", "services")
	w.each(n, every, r, machine(machines))
	r.at, r.verb, r.query, r.took = time.Second, "watch", "resourceVersion=7&watch=true", lasting
	w.each(n, every, r, machine(machines))
}

// proofs LISTs the first object each 2 s, and has a WATCH of a second after each, as a proxy does
// that proves how new its cache is.
func (w *world) proofs(n int) {
	r := someone("proxy", "list", "pods")
	r.query = "limit=1"
	w.each(n, 2*time.Second, r, nil)
	r.at, r.verb, r.query, r.took = 100*time.Millisecond, "watch", "resourceVersion=7&timeoutSeconds=3&watch=true", time.Second
	w.each(n, 2*time.Second, r, nil)
}

// refusals has creations refused for some minutes.
func (w *world) refusals() {
	r := someone("victim", "create", "pods")
	r.code = 429
	w.each(200, time.Second, r, nil)
}

const noon = 12 * time.Hour

// Each of these is the shape of a client that there is in many clusters. kind is what is found,
// none if no client is to be named.
var cases = []struct {
	name, kind string
	text       string // that the finding has
	add        func(w *world)
}{
	{name: "the autoscaler asks for metrics", add: func(w *world) {
		r := someone("hpa", "list", "pods")
		r.group, r.ns, r.query = "metrics.k8s.io", "shop", "labelSelector=app%3Dweb"
		w.each(2000, time.Second, r, nil)
	}},
	{name: "an autoscaler of nodes asks for all metrics", add: func(w *world) {
		r := someone("vpa", "list", "pods")
		r.group = "metrics.k8s.io"
		w.each(200, time.Minute, r, nil)
	}},
	{name: "the namespace controller deletes namespaces", add: func(w *world) {
		for i := range 600 {
			r := someone("namespace-controller", "deletecollection", "configmaps")
			r.at, r.ns = time.Duration(i)*4*time.Second, fmt.Sprint("ci-", i)
			w.do(r)
			r.verb = "list"
			w.do(r)
		}
	}},
	{name: "the namespace controller deletes namespaces each night", add: func(w *world) {
		for i := range 80 {
			r := someone("namespace-controller", "deletecollection", "configmaps")
			r.at, r.ns = time.Duration(i/20)*noon+time.Duration(i%20)*time.Second, fmt.Sprint("ci-", i)
			w.do(r)
			r.verb = "list"
			w.do(r)
		}
	}},
	{name: "a backup LISTs many namespaces once", add: func(w *world) {
		r := someone("backup", "list", "pods")
		w.each(300, 100*time.Millisecond, r, func(i int, r *request) { r.ns = fmt.Sprint("team-", i) })
	}},
	{name: "jobs with kubectl", add: func(w *world) {
		r := someone("ci", "list", "pods")
		r.agent, r.query = program("kubectl"), "limit=500"
		w.each(2000, 5*time.Second, r, func(i int, r *request) { r.ns = fmt.Sprint("ci-", i) })
	}},
	{name: "jobs with kubectl on new machines look at all pods", add: func(w *world) {
		r := someone("ci", "list", "pods")
		r.agent, r.query = program("kubectl"), "limit=500"
		w.each(60, time.Hour, r, machine(60))
	}},
	{name: "a deployment is rolled out now and then", add: func(w *world) {
		w.each(60, time.Hour, someone("operator", "list", "pods"), machine(60))
	}},
	{name: "a person looks at a refreshed list for a minute", add: func(w *world) {
		r := someone("person", "list", "pods")
		r.agent, r.query = program("kubectl"), "limit=500"
		w.each(30, 2*time.Second, r, nil)
	}},
	{name: "LISTs fail at once for a broken conversion", add: func(w *world) {
		r := someone("gc", "list", "widgets")
		r.code = 500
		w.each(400, 30*time.Second, r, nil)
	}},
	{name: "jobs hold an informer for seconds", add: func(w *world) { w.loop(60, 1, time.Hour, 5*time.Second) }},
	{name: "informers of many machines are disturbed twice", add: func(w *world) {
		w.loop(100, 50, time.Minute, 5*time.Second)
	}},
	{name: "many machines LIST twice, and resume their WATCHes, which end early", kind: FindingWatches, add: func(w *world) {
		w.loop(100, 50, time.Minute, 5*time.Second)
		r := someone("loop", "watch", "services")
		r.query, r.took = "resourceVersion=7&watch=true", 2*time.Minute
		w.each(80, time.Minute, r, machine(50))
		r.took = 5 * time.Second
		w.each(90, time.Minute, r, machine(50))
	}},
	{name: "a load balancer hides where a roll-out on many nodes comes from", add: func(w *world) {
		w.each(150, 4*time.Second, someone("cni", "list", "services"), func(i int, r *request) { r.pod = fmt.Sprint("cni-", i) })
	}},
	{name: "nodes are added each morning", add: func(w *world) {
		for day := range 6 {
			r := someone("kube-proxy", "list", "services")
			r.at = time.Duration(day) * noon
			w.each(30, 2*time.Second, r, machine(30))
		}
	}},
	{name: "API servers mend the allocations of Services", add: func(w *world) {
		r := someone("", "list", "services")
		r.user, r.agent = server, program("kube-apiserver")
		w.each(400, 3*time.Minute, r, nil)
	}},
	{name: "pages of one LIST", add: func(w *world) {
		r := someone("pager", "list", "pods")
		w.do(r)
		r.query = "limit=500&continue=abc"
		w.each(300, time.Second, r, nil)
		r.code = 410
		w.each(30, time.Second, r, nil)
	}},
	{name: "a proxy proves how new its cache is", add: func(w *world) { w.proofs(400) }},
	{name: "informers ask each minute for the newest version", add: func(w *world) {
		r := someone("informers", "list", "pods")
		r.query = "limit=1&resourceVersion=7&resourceVersionMatch=NotOlderThan"
		w.each(400, time.Minute, r, nil)
	}},
	{name: "a client polls the watch cache, which ignores limits", kind: FindingPolling, add: func(w *world) {
		r := someone("poller", "list", "pods")
		r.query = "limit=1&resourceVersion=0"
		w.each(400, time.Minute, r, nil)
	}},
	{name: "WATCHes end early beside proofs", kind: FindingWatches, text: "200 of 200 were over within a minute, after 30", add: func(w *world) {
		w.proofs(20)
		r := someone("proxy", "watch", "pods")
		r.at, r.query, r.took = time.Minute, "resourceVersion=7&watch=true", 30*time.Second
		w.each(200, 30*time.Second, r, nil)
	}},
	{name: "WATCHes end early, and are probed", kind: FindingWatches, text: "200 of 200 were over within a minute, after 5", add: func(w *world) {
		r, probe := someone("operator", "watch", "pods"), someone("operator", "list", "pods")
		r.query, r.took = "resourceVersion=7&timeoutSeconds=400&watch=true", 5*time.Second
		w.each(200, 5*time.Second, r, nil)
		probe.at, probe.query = 600*time.Millisecond, "limit=1"
		w.each(200, 5*time.Second, probe, nil)
	}},
	{name: "shards LIST once and WATCH", add: func(w *world) {
		for i := range 12 {
			r := someone("kube-state-metrics", "list", "pods")
			r.ip = fmt.Sprint("10.6.0.", i)
			w.informer(r, time.Duration(i)*time.Second, 3*time.Hour)
		}
	}},
	{name: "WATCHes that begin with a LIST, and are resumed", add: func(w *world) {
		for i := range 12 {
			r := someone("modern", "watch", "pods")
			r.query, r.took, r.ip = "sendInitialEvents=true&watch=true", 8*time.Minute, fmt.Sprint("10.6.0.", i)
			w.do(r)
			w.watches(r, "", r.took, 3*time.Hour)
		}
	}},
	{name: "short LISTs while others are refused", kind: FindingRefused, text: "no client's LISTs stand out", add: func(w *world) {
		w.refusals()
		w.each(5, 10*time.Second, someone("small", "list", "configmaps"), nil)
	}},
	{name: "who waited in the queues did not have the seats", kind: FindingRefused, text: "no client's LISTs stand out", add: func(w *world) {
		w.refusals()
		r := someone("waiting", "list", "pods")
		r.code, r.took = 429, 15*time.Second
		w.each(40, 5*time.Second, r, nil)
	}},
	{name: "who waited and was let in had them for a moment", kind: FindingRefused, text: "no client's LISTs stand out", add: func(w *world) {
		w.refusals()
		r := someone("waiting", "list", "pods")
		r.took, r.queued = 15*time.Second, 14900*time.Millisecond
		w.each(40, 5*time.Second, r, nil)
	}},
	{name: "evictions wait for a PodDisruptionBudget while a client LISTs", add: func(w *world) {
		r := someone("drain", "create", "pods")
		r.ns, r.object, r.sub, r.code, r.reason = "shop", "web-0", "eviction", 429, "TooManyRequests"
		w.each(100, time.Second, r, nil)
		r.reason = "" // as a server behind this one may answer
		w.each(100, time.Second, r, nil)
		r = someone("big", "list", "pods")
		r.took = 55 * time.Second
		w.each(8, 10*time.Second, r, nil)
	}},
	{name: "a watch cache that is not ready refuses while a client LISTs", add: func(w *world) {
		r := someone("reader", "get", "pods")
		r.ns, r.object, r.code, r.reason = "shop", "web-0", 429, "TooManyRequests"
		w.each(200, time.Second, r, nil)
		r = someone("big", "list", "pods")
		r.took = 55 * time.Second
		w.each(8, 10*time.Second, r, nil)
	}},
	{name: "LISTs that end behind the refusals", kind: FindingRefused, text: "had the seats", add: func(w *world) {
		w.refusals()
		r := someone("big", "list", "pods")
		r.at, r.took = 150*time.Second, 55*time.Second
		w.each(8, time.Millisecond, r, nil)
	}},
	{name: "a crash loop", kind: FindingRelist, add: func(w *world) { w.loop(40, 1, 5*time.Minute, 10*time.Second) }},
	{name: "a crash loop after two minutes, with WATCHes that begin with a LIST", kind: FindingPolling, text: "sendInitialEvents", add: func(w *world) {
		r := someone("modern", "watch", "pods")
		r.query, r.took = "sendInitialEvents=true&watch=true", 2*time.Minute
		w.each(60, 7*time.Minute, r, nil)
	}},
	{name: "an agent on each node WATCHes all pods", kind: FindingNodes, add: func(w *world) {
		r := someone("agent", "watch", "pods")
		r.query, r.took = "sendInitialEvents=true&watch=true", 8*time.Minute
		w.each(60, 20*time.Second, r, machine(60))
	}},
	{name: "a crash loop after two minutes, with WATCHes from no resourceVersion on", kind: FindingPolling, text: "at the start of a WATCH", add: func(w *world) {
		r := someone("modern", "watch", "pods")
		r.query, r.took = "watch=true", 2*time.Minute
		w.each(60, 7*time.Minute, r, nil)
	}},
	{name: "an agent on each node WATCHes all pods from no resourceVersion on", kind: FindingNodes, add: func(w *world) {
		r := someone("agent", "watch", "pods")
		r.query, r.took = "watch=true", 8*time.Minute
		w.each(60, 20*time.Second, r, machine(60))
	}},
	{name: "WATCHes from no resourceVersion on that ask for no objects", add: func(w *world) {
		r := someone("tail", "watch", "pods")
		r.query, r.took = "sendInitialEvents=false&watch=true", 8*time.Minute
		w.each(60, 20*time.Second, r, machine(60))
	}},
	{name: "LISTs time out", kind: FindingFailing, add: func(w *world) {
		r := someone("huge", "list", "pods")
		r.code, r.took = 504, time.Minute
		w.each(60, 90*time.Second, r, nil)
	}},
	{name: "a script polls with kubectl", kind: FindingPolling, add: func(w *world) {
		r := someone("script", "list", "pods")
		r.agent, r.query = program("kubectl"), "limit=500"
		w.each(300, 10*time.Second, r, nil)
	}},
	{name: "a client asks many times a minute for some hours, after a quiet day", kind: FindingPart, add: func(w *world) {
		r := someone("burst", "list", "pods")
		r.ns = "shop"
		w.do(r)
		r.at = 2 * noon
		w.each(2000, 3*time.Second, r, nil)
	}},
}

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(1)
			c.add(w)
			found := examine(t, Options{}, w.log()).Findings
			if c.kind == "" {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Kind != c.kind || !strings.Contains(found[0].Text, c.text) {
				t.Errorf("%+v, want %s: %s", found, c.kind, c.text)
			}
		})
	}
}

// What is LISTed in part is not multiplied by all objects.
func TestObjectsOfParts(t *testing.T) {
	w := newWorld(1)
	for day := range 6 {
		r := someone("resync", "list", "pods")
		r.at = time.Duration(day) * noon
		w.each(20, time.Second, r, func(i int, r *request) { r.ns = fmt.Sprint("team-", i) })
	}
	found := examine(t, Options{Objects: map[string]int64{"pods": 50_000}}, w.log()).Findings
	if len(found) != 1 || found[0].Kind != FindingResync || found[0].Objects != 0 {
		t.Errorf("%+v", found)
	}
}

// A log of the same time behind another one is seen like the first.
func TestRhythmOfLogsInARow(t *testing.T) {
	var r rhythm
	for range 2 {
		for i := range int64(60) {
			r.add(i*120e6, nil)
		}
	}
	if every, share := r.interval(); every != 2*time.Minute || share < 1 || r.bin[35].n != 118 || r.span() != 118*time.Minute {
		t.Errorf("every %v, %g, %v", every, share, r.span())
	}
}
