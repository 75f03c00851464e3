package doctor

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// TestCulpritsAreFound checks that the findings name each culprit for what it does, and name no
// other client.
func TestCulpritsAreFound(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(seed)
			w.innocents()
			want := w.culprits()
			found := map[string]string{}
			for _, f := range examine(t, Options{}, w.log()).Findings {
				t.Logf("%s %s: %s", f.Kind, f.Client, f.Text)
				if f.Kind == FindingRefused {
					if f.Client.User != account(FindingNodes) || !strings.Contains(f.Text, "120 of those of victim/v1.2.3") {
						t.Errorf("%s: %s", f.Client, f.Text)
					}
					continue
				}
				if was, twice := found[f.Client.User]; twice {
					t.Errorf("%s twice, for %s as well", f.Client, was)
				}
				found[f.Client.User] = f.Kind
			}
			if !maps.Equal(found, want) {
				t.Errorf("found %v, want %v", found, want)
			}
		})
	}
}

func TestInnocentsAreNot(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(100 + seed)
		w.innocents()
		for _, f := range examine(t, Options{}, w.log()).Findings {
			t.Errorf("seed %d: %s %s: %s", seed, f.Kind, f.Client, f.Text)
		}
	}
}

// TestResyncPeriod checks that doctor finds a resync every ten hours in a log of three days, and
// the period of the resync.
func TestResyncPeriod(t *testing.T) {
	w := newWorld(1)
	r := request{user: account("sync"), agent: program("sync"), ip: "10.9.0.1", verb: "list", resource: "pods"}
	for at := time.Hour; at < days; at += 10 * time.Hour {
		for range 30 {
			r.at = at + w.between(0, time.Minute)
			w.do(r)
		}
	}
	found := examine(t, Options{}, w.log()).Findings
	if len(found) != 1 || found[0].Kind != FindingResync || !strings.Contains(found[0].Text, "every 10 h, seen 8 times: bursts of 30 LISTs") {
		t.Errorf("%+v", found)
	}
}

// TestFindingsAreOrdered checks that findings about resources with known sizes are ordered by the
// number of objects that were read.
func TestFindingsAreOrdered(t *testing.T) {
	w := newWorld(1)
	for _, resource := range []string{"pods", "nodes"} {
		for i := range 100 {
			took := 10 * time.Millisecond
			if resource == "nodes" {
				took = time.Second
			}
			w.do(request{at: time.Duration(i) * time.Minute, took: took, user: resource, agent: program("poll"), ip: "10.0.0.1", verb: "list", resource: resource})
		}
	}
	log := w.log()
	for _, c := range []struct {
		objects map[string]int64
		first   string
		read    int64
	}{
		{nil, "nodes", 0},
		{map[string]int64{"pods": 50_000}, "pods", 5_000_000},
	} {
		found := examine(t, Options{Objects: c.objects}, log).Findings
		if len(found) != 2 || found[0].Client.User != c.first || found[0].Objects != c.read || !strings.Contains(found[0].Text, "every 1 min") {
			t.Errorf("%v: %+v", c.objects, found)
		}
	}
}

// TestNothingCountsTwice checks that a request counts once, whichever of its stages the log
// contains.
func TestNothingCountsTwice(t *testing.T) {
	w := newWorld(1)
	r := request{user: "u", agent: program("p"), ip: "10.0.0.1", verb: "watch", resource: "pods", took: time.Minute}
	w.do(r)
	r.open = true
	w.do(r)
	r.verb, r.open = "list", false
	w.do(r)
	for _, stage := range []string{"RequestReceived", "Panic"} {
		w.lines = append(w.lines, stamped{0, w.line(r, stage, 0)})
	}
	got := examine(t, Options{}, w.log())
	if n := got.Totals; n.Requests != 3 || n.Lists != 1 || n.Watches != 2 || got.Clients[0].Totals != n {
		t.Errorf("%+v", got)
	}
	if watches := got.Clients[0].Resources[0].Watches; watches.Open != 1 || watches.Ended != 1 {
		t.Errorf("%+v", watches)
	}
}

// TestEmpty checks that a log in which no request is complete has no time and is Empty, even if
// WATCHes have started.
func TestEmpty(t *testing.T) {
	for _, open := range []bool{true, false} {
		w := newWorld(1)
		r := someone("w", "watch", "pods")
		r.open = open
		w.do(r)
		got := examine(t, Options{}, w.log())
		if got.Empty() != open || got.From.IsZero() != open || got.To.IsZero() != open {
			t.Errorf("open %v: empty %v, %v to %v", open, got.Empty(), got.From, got.To)
		}
	}
}

// TestHeavyHittersStay checks that if there are more clients than the limit, the clients with the
// most requests stay. It checks that the totals still count every request.
func TestHeavyHittersStay(t *testing.T) {
	d := New(Options{})
	d.clients.limit = 32
	e := &evidence.Event{Stage: []byte(evidence.StageResponseComplete), Object: evidence.Object{Resource: []byte("pods")}}
	for i := range 20_000 {
		e.Staged = int64(i) * 1e6
		e.User, e.Verb = fmt.Append(nil, "rare-", i), []byte("get")
		if i%4 == 0 {
			e.User = []byte("often")
		}
		if i%500 == 7 {
			e.User, e.Verb = []byte("lister"), []byte("list")
		}
		if i%50 == 9 {
			e.User, e.Verb = []byte("watcher"), []byte("watch")
		}
		e.Code = 200
		if i%50 == 11 {
			e.User, e.Code = []byte("refused"), 429
		}
		d.Add(e)
	}
	r := d.Report()
	total := r.Others
	asked := map[string]int64{}
	for _, c := range r.Clients {
		total.add(c.Totals)
		asked[c.User] = c.Requests
	}
	if total != r.Totals || total.Requests != 20_000 || len(r.Clients) != 32 {
		t.Errorf("%d clients, %+v in all, %+v", len(r.Clients), total, r.Totals)
	}
	for heavy, least := range map[string]int64{"often": 4500, "lister": 40, "watcher": 390, "refused": 390} {
		if asked[heavy] < least {
			t.Errorf("%s is reported with %d requests, want %d", heavy, asked[heavy], least)
		}
	}
}

// TestOpenWatchesOfEvictedClients checks that open WATCHes of evicted clients are counted.
func TestOpenWatchesOfEvictedClients(t *testing.T) {
	d := New(Options{})
	d.clients.limit = 8
	e := &evidence.Event{Object: evidence.Object{Resource: []byte("pods")}}
	for i := range 1000 {
		e.Staged, e.User, e.AuditID = int64(i+1)*1e6, fmt.Append(nil, "user-", i), fmt.Append(nil, "id-", i)
		e.Stage, e.Verb = []byte(evidence.StageResponseStarted), []byte("watch")
		d.Add(e)
		e.Stage, e.Verb = []byte(evidence.StageResponseComplete), []byte("list")
		d.Add(e)
	}
	r := d.Report()
	total := r.Others
	for _, c := range r.Clients {
		total.add(c.Totals)
	}
	if total != r.Totals || total.Watches != 1000 || total.Lists != 1000 {
		t.Errorf("%+v in all, %+v", total, r.Totals)
	}
}

// TestOpenWatchesMakeRoom checks that overdue WATCHes are removed when there are too many open
// ones.
func TestOpenWatchesMakeRoom(t *testing.T) {
	d := New(Options{})
	e := &evidence.Event{Object: evidence.Object{Resource: []byte("pods")}, Verb: []byte("watch"), User: []byte("one")}
	for hour := range int64(3) {
		for i := range int64(maxOpenWatches / 2) {
			e.Staged, e.AuditID, e.Stage = (2*hour+1)*3600e6+i, fmt.Append(nil, hour, " ", i), []byte(evidence.StageResponseStarted)
			d.Add(e)
		}
	}
	e.Stage, e.AuditID = []byte(evidence.StageResponseComplete), []byte("ended")
	d.Add(e)
	check.Equal(t, d.Report().Totals.Watches, maxOpenWatches/2+1, "WATCHes")
}

// TestOtherResources checks that requests for more resources than the limit are counted together,
// and cause no finding.
func TestOtherResources(t *testing.T) {
	d := New(Options{})
	e := &evidence.Event{Stage: []byte(evidence.StageResponseComplete), Verb: []byte("list"), User: []byte("one")}
	for i := range maxUsages + 1000 {
		e.Staged = int64(i+1) * 1e6
		e.Object.Resource = fmt.Append(nil, "kind-", i)
		d.Add(e)
	}
	r := d.Report()
	const told = maxUsages - minUsages*maxClients
	if n := len(r.Clients[0].Resources); n != told+1 || r.Clients[0].Resources[0].Verbs["list"].Requests != maxUsages+1000-told || len(r.Findings) > 0 {
		t.Errorf("%d resources, %+v, %+v", n, r.Clients[0].Resources[0], r.Findings)
	}
	// Another client still gets findings.
	for i := range 100 {
		e.Staged += 30e6
		e.User, e.Object.Resource = []byte("two"), []byte([]string{"pods", "secrets"}[i%2])
		d.Add(e)
	}
	if found := d.Report().Findings; len(found) != 1 || found[0].Client.User != "two" || len(found[0].Also) != 1 {
		t.Errorf("%+v", found)
	}
}

func TestClientNames(t *testing.T) {
	for agent, want := range map[string]string{
		"kube-controller-manager/v1.37.2 (linux/amd64) kubernetes/2bd1f36/leader-election":                     "kube-controller-manager/v1.37.2/leader-election",
		"kube-controller-manager/v1.37.2 (linux/amd64) kubernetes/2bd1f36/system:serviceaccount:kube-system:x": "kube-controller-manager/v1.37.2/system:serviceaccount:kube-system:x",
		"kubelet/v1.37.2 (linux/amd64) kubernetes/2bd1f36":                                                     "kubelet/v1.37.2",
		"curl/8.0":                       "curl/8.0",
		"Mozilla/5.0 (X11) Gecko/1 (x)":  "Mozilla/5.0",
		"":                               "",
		strings.Repeat("x", 2*maxName):   strings.Repeat("x", maxName),
		" (":                             "",
		"a (b) kubernetes/":              "a",
		"a (b) kubernetes/c/d (e)/f (g)": "a/d (e)/f (g)",
	} {
		check.Equal(t, string(appendAgent(nil, []byte(agent))), want, "%q", agent)
	}
}

// TestImpersonation checks requests through a proxy that impersonates users, such as Rancher or
// Teleport: the client is the impersonated user, and the report names the user that authenticated.
func TestImpersonation(t *testing.T) {
	w := newWorld(1)
	r := someone("", "list", "pods")
	r.agent, r.via, r.pod = program("tool"), account("rancher"), "rancher-0"
	for i, user := range []string{"jane", "joe", "jill"} {
		r.user, r.ip = user, fmt.Sprint("10.0.0.", i)
		w.each(100*(i/2)+1, 30*time.Second, r, nil)
	}
	r.via, r.at = "teleport", time.Hour
	w.do(r)
	got := examine(t, Options{}, w.log())
	if len(got.Clients) != 3 || len(got.Findings) != 1 {
		t.Fatalf("%d clients, %+v", len(got.Clients), got.Findings)
	}
	if name := got.Findings[0].Client.String(); name != "tool/v1.2.3 (jill, via "+account("rancher")+" and others)" {
		t.Error(name)
	}
	for _, c := range got.Clients {
		if c.Machines != 1 || !strings.HasPrefix(c.Via, account("rancher")) {
			t.Errorf("%+v", c)
		}
	}
}

func TestDistinct(t *testing.T) {
	for _, n := range []int{0, 1, 2, 20, 200, 2000, 20_000} {
		var d distinct
		for i := range n {
			for range 2 {
				d.add(fmt.Append(nil, "10.0.", i))
			}
		}
		if got := d.count(); math.Abs(float64(got-n)) > 0.15*float64(n) {
			t.Errorf("%d of %d", got, n)
		}
	}
}

// TestSeries checks that wider buckets still contain the values of the narrower ones.
func TestSeries(t *testing.T) {
	var c clock
	var early, late series
	for i := range int64(100_000) {
		at := 1e12 + i*3_000_000
		early.add(&c, c.bucket(at), 1)
	}
	late.add(&c, c.bucket(0), 5)
	sum := uint32(0)
	for _, n := range early.fold(&c) {
		sum += n
	}
	if sum != 100_000 || len(early.n) > maxBuckets || c.width() != 128_000_000 || late.n[0] != 5 {
		t.Errorf("sum %d, %d buckets of %d µs", sum, len(early.n), c.width())
	}
}

// BenchmarkDoctor reads and examines a log of three days, including parsing.
func BenchmarkDoctor(b *testing.B) {
	w := newWorld(1)
	w.innocents()
	w.culprits()
	log := w.log()
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		examine(b, Options{}, log)
	}
}
