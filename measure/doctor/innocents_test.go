package doctor

import (
	"fmt"
	"time"
)

// innocents adds clients that cause no finding.
func (w *world) innocents() {
	for i := range 30 {
		w.kubelet(i)
	}
	for i := range 6 {
		w.controller(fmt.Sprint("controller-", i))
	}
	for i := range 4 {
		w.person(fmt.Sprint("person-", i))
	}
	w.leader("kube-scheduler")
	w.forbidden("nosy")
	w.rollout("web")
	w.rarely("hourly")
	w.daemon("cni")
	w.unlucky("unlucky")
	w.often("often")
}

// kubelet adds the requests of a node. The kubelet watches pods with a selector, lists services,
// and renews the node's lease. It watches a single Secret 30 times, each time for some seconds, as
// kubelets do for short-lived pods that use the Secret. kube-proxy watches services, and one of its
// WATCHes ends early, as it would after a restart of the server.
func (w *world) kubelet(i int) {
	name, ip := fmt.Sprint("node-", i), fmt.Sprint("10.0.1.", i)
	k := request{user: "system:node:" + name, agent: program("kubelet"), ip: ip}
	from := w.between(0, days-4*time.Hour)
	pods := "fieldSelector=spec.nodeName%3D" + name
	k.verb, k.resource, k.query, k.at = "list", "pods", pods+"&limit=500&resourceVersion=0", from
	w.do(k)
	w.watches(k, pods, from, 3*time.Hour)
	k.resource, k.query = "services", "limit=500&resourceVersion=0"
	w.do(k)
	for range 30 {
		k.verb, k.resource, k.ns, k.query = "watch", "secrets", "shop", "fieldSelector=metadata.name%3Dtoken&watch=true"
		k.at, k.took = from+w.between(0, 3*time.Hour), w.between(time.Second, 20*time.Second)
		w.do(k)
	}
	lease := request{user: k.user, agent: k.agent, ip: ip, verb: "update", group: "coordination.k8s.io", resource: "leases", ns: "kube-node-lease", object: name}
	for at := from; at < from+10*time.Minute; at += 10 * time.Second {
		lease.at = at
		w.do(lease)
	}
	p := request{user: "system:serviceaccount:kube-system:kube-proxy", agent: program("kube-proxy"), ip: ip, resource: "services"}
	w.informer(p, from, time.Hour)
	p.at, p.verb, p.took, p.query = from+2*time.Hour, "watch", 10*time.Second, "watch=true"
	w.do(p)
}

// watches adds WATCHes that follow each other, each of 5 to 10 minutes. The last one stays open.
func (w *world) watches(r request, query string, from, lasting time.Duration) {
	r.verb, r.query = "watch", query+"&allowWatchBookmarks=true&resourceVersion=77&watch=true"
	for at := from; ; at += r.took {
		r.at, r.took = at, w.between(5*time.Minute, 10*time.Minute)
		r.open = at+r.took > from+lasting || at+r.took > days
		w.do(r)
		if r.open {
			return
		}
	}
}

// informer adds a LIST and the WATCHes that follow it.
func (w *world) informer(r request, from, lasting time.Duration) {
	r.at, r.verb, r.query, r.took = from, "list", "limit=500&resourceVersion=0", w.between(50*time.Millisecond, 2*time.Second)
	w.do(r)
	w.watches(r, "", from+r.took, lasting)
}

// controller adds a controller with informers and two replicas. It restarts twice a day.
func (w *world) controller(name string) {
	for replica := range 2 {
		for _, resource := range []string{"pods", "configmaps"} {
			r := request{user: account(name), agent: program(name), ip: fmt.Sprintf("10.1.0.%d", replica), resource: resource}
			for at := w.between(0, time.Hour); at < days; at += w.between(11*time.Hour, 13*time.Hour) {
				w.informer(r, at, 2*time.Hour)
			}
		}
	}
}

// person adds a person who occasionally uses kubectl.
func (w *world) person(name string) {
	r := request{user: name, agent: "kubectl/v1.37.2 (darwin/arm64) kubernetes/abcdef0", ip: "192.168.7.7"}
	for range w.rnd.IntN(6) {
		at := w.between(0, days-time.Hour)
		for range w.rnd.IntN(8) {
			at += time.Duration(w.rnd.ExpFloat64() * float64(90*time.Second))
			r.at, r.verb, r.resource, r.query, r.ns = at, "list", "pods", "limit=500", ""
			if w.rnd.IntN(2) == 0 {
				r.ns = "shop"
			}
			w.do(r)
		}
	}
}

// leader adds a program that renews a lease.
func (w *world) leader(name string) {
	r := request{user: "system:" + name, agent: program(name) + "/leader-election", ip: "10.0.0.2", group: "coordination.k8s.io", resource: "leases",
		ns: "kube-system", object: name}
	for at := time.Duration(0); at < 30*time.Minute; at += 2 * time.Second {
		for _, r.verb = range []string{"get", "update"} {
			r.at = at
			w.do(r)
		}
	}
}

// forbidden adds an informer that may not LIST and retries.
func (w *world) forbidden(name string) {
	r := request{user: account(name), agent: program(name), ip: "10.2.0.1", resource: "secrets", code: 403}
	for at := time.Duration(0); at < 3*time.Hour; at += 30 * time.Second {
		for _, r.verb = range []string{"list", "watch"} {
			r.at = at
			w.do(r)
		}
	}
}

// rollout adds a deployment that is rolled out several times. Each time, each replica LISTs once
// with a selector.
func (w *world) rollout(name string) {
	r := request{user: account(name), agent: program(name), verb: "list", resource: "endpointslices", group: "discovery.k8s.io", query: "labelSelector=app%3Dweb"}
	for range 3 {
		at := w.between(0, days)
		for i := range 40 {
			r.ip, r.at = fmt.Sprint("10.3.0.", i), at+w.between(0, time.Minute)
			w.do(r)
		}
	}
}

// rarely adds a job that sends one slow LIST of all objects an hour.
func (w *world) rarely(name string) {
	for at := time.Duration(0); at < days; at += time.Hour {
		w.do(request{at: at, user: account(name), agent: program(name), ip: "10.3.1.1", verb: "list", resource: "nodes", took: 100 * time.Second})
	}
}

// daemon adds a program that starts on many nodes within ten minutes. On each node it LISTs the
// node's pods and all services, and LISTs them again when a restarting server ends its WATCH.
func (w *world) daemon(name string) {
	r := request{user: account(name), agent: program(name)}
	from := w.between(0, days-4*time.Hour)
	for i := range 120 {
		r.ip = fmt.Sprint("10.4.0.", i)
		r.at, r.verb, r.resource, r.query, r.took = from+w.between(0, 10*time.Minute), "list", "pods", "fieldSelector=spec.nodeName%3Dn", 0
		w.do(r)
		r.resource, r.query = "services", ""
		w.do(r)
		r.verb, r.query, r.took = "watch", "watch=true", 20*time.Second
		w.do(r)
		r.took = 0
		w.informer(r, r.at+20*time.Second, time.Minute)
	}
}

// unlucky adds an informer that must LIST again a dozen times a day.
func (w *world) unlucky(name string) {
	r := request{user: account(name), agent: program(name), ip: "10.3.1.2", resource: "pods"}
	for at := time.Duration(0); at < days-3*time.Hour; at += w.between(90*time.Minute, 110*time.Minute) {
		r.at, r.verb, r.query, r.took = at, "watch", "watch=true", 20*time.Second
		w.do(r)
		w.informer(r, at+20*time.Second, 80*time.Minute)
	}
}

// often adds a client that LISTs all pods about every half hour, day and night.
func (w *world) often(name string) {
	r := request{user: name, agent: program("kubectl"), ip: "192.168.7.8", verb: "list", resource: "pods", query: "limit=500"}
	for at := time.Duration(0); at < days; at += time.Duration(w.rnd.ExpFloat64() * float64(25*time.Minute)) {
		r.at = at
		w.do(r)
	}
}

// culprits adds one client for each kind of finding. It returns the kinds by the client's user.
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

// jitter returns a random duration within 3 % of d.
func (w *world) jitter(d time.Duration) time.Duration { return w.between(d-d*3/100, d+d*3/100) }

// poller adds LISTs of all objects, at an interval of 20 s to 5 minutes.
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

// resyncer adds LISTs every 6 to 12 hours: either one of each namespace, or one of all objects by
// each of several workers.
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

// relister adds a client that LISTs, WATCHes for some seconds, and LISTs again.
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

// impatient adds WATCHes with a timeout of half a minute, each of which is resumed.
func (w *world) impatient(r request) {
	r.resource, r.verb = "services", "watch"
	at := w.between(0, days/2)
	for range 120 + w.rnd.IntN(200) {
		r.at, r.query, r.took = at, "resourceVersion=7&timeoutSeconds=30&watch=true", 30*time.Second
		w.do(r)
		at += r.took
	}
}

// agents adds many nodes that all LIST all pods within an hour, while other requests are refused.
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

// seeker adds a client that sends many LISTs a minute, each of the pods of one application.
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
