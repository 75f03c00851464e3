package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// writing is a client that updates an object.
func writing(name, resource, object string) request {
	r := someone(name, "update", resource)
	r.ns, r.object = "shop", object
	return r
}

// watchers adds n WATCHes of a resource that last for the whole log.
func (w *world) watchers(n int, resource, query string, lasting time.Duration) {
	r := someone("watcher", "watch", resource)
	r.query, r.took = "resourceVersion=7&watch=true"+query, lasting
	w.each(n, time.Millisecond, r, machine(n))
}

// TestWritesAndGets: what GETs and writes cost decides what is found, and not how many there are.
func TestWritesAndGets(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		text       string
		add        func(w *world)
	}{
		{"two overwrite one object three times a second each", "fight", "in turn with b/v1.2.3 (system:serviceaccount:apps:b): 3,600 writes", func(w *world) {
			w.each(1800, 333*time.Millisecond, writing("a", "configmaps", "web"), nil)
			b := writing("b", "configmaps", "web")
			b.at = 100 * time.Millisecond
			w.each(1800, 333*time.Millisecond, b, nil)
		}},
		{"two machines of one client", "fight", "in turn with itself on another machine", func(w *world) {
			w.each(3600, 166*time.Millisecond, writing("a", "configmaps", "web"), machine(2))
		}},
		{"conflicts", "fight", "1,000 more were conflicts (409)", func(w *world) {
			w.each(2000, 300*time.Millisecond, writing("a", "configmaps", "web"), nil)
			w.each(2000, 300*time.Millisecond, writing("b", "configmaps", "web"), func(i int, r *request) {
				r.at += 100 * time.Millisecond
				if i%2 == 0 {
					r.code = 409
				}
			})
		}},
		{"two write one object, each its own subresource", "", "", func(w *world) {
			w.each(600, time.Second, writing("a", "configmaps", "web"), nil)
			b := writing("b", "configmaps", "web")
			b.sub = "status"
			w.each(600, time.Second, b, nil)
		}},
		{"two write one object now and then", "", "", func(w *world) {
			w.each(600, time.Second, writing("a", "configmaps", "web"), nil)
			w.each(600, time.Second, writing("b", "configmaps", "web"), nil)
		}},
		{"as often, with many WATCHes", "fight", "sent to 200 WATCHes each", func(w *world) {
			w.each(600, time.Second, writing("a", "configmaps", "web"), nil)
			w.each(600, time.Second, writing("b", "configmaps", "web"), nil)
			w.watchers(200, "configmaps", "", 10*time.Minute)
		}},
		{"as often, with WATCHes of other objects", "", "", func(w *world) {
			w.each(600, time.Second, writing("a", "configmaps", "web"), nil)
			w.each(600, time.Second, writing("b", "configmaps", "web"), nil)
			w.watchers(200, "configmaps", "&fieldSelector=metadata.name%3Dother", 10*time.Minute)
		}},
		{"kubelets and others write Nodes, which thousands WATCH", "", "", func(w *world) {
			w.each(120, 30*time.Second, writing("a", "nodes", "n"), nil)
			w.each(12, 5*time.Minute, writing("b", "nodes", "n"), nil)
			w.watchers(5000, "nodes", "", time.Hour)
		}},
		{"one object, often", "writes", "of about 1 objects", func(w *world) {
			w.each(3600, 200*time.Millisecond, writing("a", "configmaps", "web"), nil)
		}},
		{"a lock that is renewed, an Endpoints that all nodes WATCH", "writes", "sent to 999 WATCHes each", func(w *world) {
			w.each(900, 2*time.Second, writing("a", "endpoints", "lock"), nil)
			w.watchers(1000, "endpoints", "", 30*time.Minute)
		}},
		{"a lock that is renewed, a Lease", "", "", func(w *world) {
			r := writing("a", "leases", "lock")
			r.group = "coordination.k8s.io"
			w.each(900, 2*time.Second, r, nil)
			r.verb = "get"
			w.each(900, 2*time.Second, r, nil)
		}},
		{"as many writes, each of another object", "", "", func(w *world) {
			w.each(3600, 200*time.Millisecond, writing("a", "configmaps", "web"), func(i int, r *request) { r.object = fmt.Sprint("web-", i) })
		}},
		{"3,000 nodes renew their Leases", "", "", func(w *world) {
			r := writing("", "leases", "")
			r.group, r.agent = "coordination.k8s.io", program("kubelet")
			w.each(90_000, 3*time.Millisecond, r, func(i int, r *request) {
				r.object = fmt.Sprint("node-", i%3000)
				r.user = "system:node:" + r.object
			})
		}},
		{"questions about rights", "", "", func(w *world) {
			r := someone("extension", "create", "subjectaccessreviews")
			r.group = "authorization.k8s.io"
			w.each(3600, 100*time.Millisecond, r, nil)
		}},
		{"Pods without a name yet", "", "", func(w *world) {
			r := someone("replicaset-controller", "create", "pods")
			r.ns = "shop"
			w.each(7200, 100*time.Millisecond, r, nil)
		}},
		{"GETs that are forbidden", "", "", func(w *world) {
			r := writing("reader", "configmaps", "settings")
			r.verb, r.code = "get", 403
			w.each(20*1200, 50*time.Millisecond, r, nil)
		}},
		{"GETs by a deployment that is rolled out now and then", "gets", "up to 10.0 times a second:", func(w *world) {
			r := writing("reader", "configmaps", "settings")
			r.verb = "get"
			w.each(36_000, 100*time.Millisecond, r, func(i int, r *request) { r.pod = fmt.Sprint("reader-", i/6000) })
		}},
		{"GETs on each of 30 machines", "gets", "times a second on each machine:", func(w *world) {
			r := writing("reader", "configmaps", "settings")
			r.verb = "get"
			w.each(30*5*900, time.Second/150, r, machine(30))
		}},
		{"two overwrite all objects of a resource", "fight", "and 199 more objects", func(w *world) {
			w.each(36_000, 50*time.Millisecond, writing("a", "configmaps", ""), func(i int, r *request) {
				r.object = fmt.Sprint("web-", i/2%200)
				if i%2 == 0 {
					r.user, r.agent = account("b"), program("b")
				}
			})
			w.watchers(200, "configmaps", "", 30*time.Minute)
		}},
		{"eight Events a second", "events", "records up to 8.00 Events a second:", func(w *world) {
			r := someone("loud", "create", "events")
			r.ns = "shop"
			w.each(8*3600, 125*time.Millisecond, r, nil)
		}},
		{"two Events a second", "", "", func(w *world) {
			r := someone("loud", "create", "events")
			r.ns = "shop"
			w.each(2*3600, 500*time.Millisecond, r, nil)
		}},
		{"GETs of one ConfigMap 20 times a second", "gets", "GETs configmaps up to 20.0 times a second:", func(w *world) {
			r := writing("reader", "configmaps", "settings")
			r.verb = "get"
			w.each(20*1200, 50*time.Millisecond, r, nil)
		}},
		{"GETs of many objects", "", "", func(w *world) {
			r := writing("reader", "configmaps", "")
			r.verb = "get"
			w.each(20*1200, 50*time.Millisecond, r, func(i int, r *request) { r.object = fmt.Sprint("c-", i%5000) })
		}},
		{"logs of one Pod", "", "", func(w *world) {
			r := writing("logger", "pods", "web")
			r.verb, r.sub = "get", "log"
			w.each(20*1200, 50*time.Millisecond, r, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(1)
			c.add(w)
			var got []string
			for _, f := range examine(t, plainly(), w.log()).Findings {
				got = append(got, f.Kind+": "+f.Text)
			}
			if c.kind == "" && len(got) > 0 || c.kind != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.kind+": ") || !strings.Contains(got[0], c.text)) {
				t.Errorf("%q, want %s: %s", got, c.kind, c.text)
			}
		})
	}
}
