package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// day is how long the logs of these tests are.
const day = 24 * time.Hour

// resyncs adds bursts of LISTs by a controller that is up all day, as its handlers send them when
// its informers resync: one for each object.
func (w *world) resyncs(lists int, at ...time.Duration) {
	r := someone("operator", "list", "pods")
	for _, from := range at {
		r.at = from
		w.each(lists, 20*time.Millisecond, r, func(i int, r *request) {
			r.ns, r.query = fmt.Sprint("team-", i%50), fmt.Sprint("labelSelector=app%3Dweb-", i)
		})
	}
	// What it does all day: it has an informer, and renews a lease.
	w.watches(someone("operator", "watch", "deployments"), "", time.Second, day-time.Hour)
	w.each(int(day/time.Minute), time.Minute, request{user: account("operator"), agent: program("operator"), ip: "10.9.0.1", verb: "update",
		group: "coordination.k8s.io", resource: "leases", ns: "apps", object: "operator"}, nil)
}

// startsAt adds what a controller does when it starts: it LISTs for its informer and WATCHes.
func (w *world) startsAt(at time.Duration) {
	w.informer(someone("operator", "list", "deployments"), at, time.Minute)
}

// rollsOut adds the Pods that other controllers create and delete when a large application is
// rolled out.
func (w *world) rollsOut(at time.Duration, pods int) {
	for _, verb := range []string{"create", "delete"} {
		r := someone("replicaset-controller", verb, "pods")
		r.at, r.ns = at, "shop"
		w.each(pods, 30*time.Millisecond, r, func(i int, r *request) { r.object = fmt.Sprint("web-", verb, i, at) })
	}
}

func hours(h ...float64) (at []time.Duration) {
	for _, one := range h {
		at = append(at, time.Duration(one*float64(time.Hour)))
	}
	return at
}

// TestResync: a controller that resyncs every ten hours, exactly or ± 10 %, is named after three
// bursts in a day, and after two if nothing else explains them.
func TestResync(t *testing.T) {
	const proven, twice = "every 10 h, seen 3 times", "every 10 h, seen twice, not proven"
	for _, c := range []struct {
		name string
		text string // that the finding has; empty: there is none
		add  func(w *world)
	}{
		{"exactly", proven, func(w *world) { w.resyncs(4000, hours(1, 11, 21)...) }},
		{"a short period", "(measured: 9.1 h)", func(w *world) { w.resyncs(4000, hours(1, 10.1, 19.2)...) }},
		{"a short period is 10 h ± 10 %", proven, func(w *world) { w.resyncs(4000, hours(1, 10.1, 19.2)...) }},
		{"a long period", proven, func(w *world) { w.resyncs(4000, hours(1, 11.9, 22.8)...) }},
		{"each period is another one", proven, func(w *world) { w.resyncs(4000, hours(1, 10.1, 21)...) }},
		{"three of another period", "every 5 h, seen 3 times", func(w *world) { w.resyncs(4000, hours(1, 6, 11)...) }},
		{"three of no period", "", func(w *world) { w.resyncs(90, hours(1, 4, 12)...) }},
		{"two informers, each with a period", "every 10 h, seen 6 times", func(w *world) { w.resyncs(1000, hours(1, 2, 10.2, 12.6, 19.4, 23.2)...) }},
		{"beside LISTs all day", proven, func(w *world) {
			w.resyncs(4000, hours(1, 11, 21)...)
			r := someone("operator", "list", "pods")
			r.ns, r.query = "shop", "labelSelector=a%3Db"
			w.each(2000, 40*time.Second, r, nil)
		}},
		{"a week of two hours", "every 2 h, seen 84 times", func(w *world) {
			var at []time.Duration
			for i := range 84 {
				at = append(at, time.Duration(i)*2*time.Hour)
			}
			w.resyncs(30, at...)
		}},
		{"two", twice, func(w *world) { w.resyncs(4000, hours(3, 13)...) }},
		{"two, the first after a start", twice, func(w *world) {
			w.startsAt(3*time.Hour - time.Minute)
			w.resyncs(4000, hours(3, 13)...)
		}},
		{"two, in a cluster with many jobs", twice, func(w *world) {
			w.resyncs(4000, hours(3, 13)...)
			for _, verb := range []string{"create", "delete"} {
				r := someone("job-controller", verb, "pods")
				r.ns = "shop"
				w.each(int(day/time.Second/2), 2*time.Second, r, nil)
			}
		}},
		{"two, and a restart", twice, func(w *world) {
			w.resyncs(4000, hours(3, 13, 16)...)
			w.startsAt(16*time.Hour - time.Minute)
		}},
		{"two of another period", "2 bursts of 4,000", func(w *world) { w.resyncs(4000, hours(3, 8)...) }},
		{"two restarts", "", func(w *world) {
			for _, h := range hours(3, 13) {
				w.startsAt(h - time.Minute)
			}
			w.resyncs(4000, hours(3, 13)...)
		}},
		{"two rollouts of the controller", "", func(w *world) {
			for i, h := range hours(3, 13) {
				r := someone("operator", "list", "pods")
				r.at, r.query, r.pod = h, "labelSelector=a%3Db", fmt.Sprint("operator-", i)
				w.each(4000, 20*time.Millisecond, r, nil)
			}
			w.each(1000, time.Minute, request{user: "u", agent: program("u"), verb: "get", resource: "pods"}, nil)
		}},
		{"two rollouts of what it looks after", "", func(w *world) {
			w.resyncs(4000, hours(3, 13)...)
			for _, h := range hours(3, 13) {
				w.rollsOut(h-time.Second, 600)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(1)
			c.add(w)
			found := examine(t, Options{}, w.log()).Findings
			if c.text == "" {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 || !strings.Contains(found[0].Text, c.text) {
				t.Fatalf("%+v, want %q", found, c.text)
			}
			if f := found[0]; strings.Contains(c.text, "every") && f.Kind != FindingResync ||
				strings.Contains(c.text, "10 h") && !(strings.Contains(f.Text, "controller-runtime") && strings.Contains(f.Text, "knative") && strings.Contains(f.Remedy, "0")) {
				t.Errorf("%+v", f)
			}
		})
	}
}
