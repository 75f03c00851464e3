package doctor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/cost"
)

// plain is a cost model with round numbers.
var plain = &cost.Model{
	Server: cost.Coefficients{Request: 1, Quorum: 10, Looked: 0.001, Event: 0.1, Encodings: plainEncodings},
	Proxy:  cost.Coefficients{Request: 0.1, Encodings: plainEncodings},
	Memory: cost.Memory{Headroom: 0.5, Held: 0.5},
}

var plainEncodings = map[cost.Encoding]cost.Sent{
	cost.Protobuf: {Seconds: 1e-6, Bytes: 1}, cost.ProtobufGzip: {Seconds: 1e-6, Bytes: 0.1}, cost.JSON: {Seconds: 4e-6, Bytes: 3},
	cost.JSONGzip: {Seconds: 4e-6, Bytes: 0.3}, cost.Initial: {Seconds: 2e-6, Bytes: 1},
}

// plainly returns options with 10,000 pods, which have 1 MB together, and 100 nodes.
func plainly() Options {
	return Options{
		Model: plain, Objects: map[string]int64{"pods": 10_000, "nodes": 100, "services": 100}, Bytes: map[string]int64{"pods": 100},
	}
}

// TestExistingInformer checks remedies for a client that already has an informer. The informer is a
// remedy for the client's other requests, but not for the requests that the informer itself sends.
func TestExistingInformer(t *testing.T) {
	const watching = " every 7m: c watch pods took=2m query="
	for _, c := range []struct {
		kind, remedy string
		lines        []string
	}{
		{FindingPolling, RemedyHeld, []string{"60" + watching + "resourceVersion=7&watch=true", "200 every 30s: c list pods"}},
		{FindingPolling, RemedyResume, []string{"60" + watching + "sendInitialEvents=true&watch=true"}},
		{FindingFailing, RemedyInformer, []string{"60" + watching + "resourceVersion=7&watch=true", "60 every 90s: c list pods code=504 took=1m"}},
		{FindingPart, RemedyInformer, []string{"8" + watching + "watch=true", "2000 every 1s: c list pods query=labelSelector=a%3Db"}},
	} {
		for _, f := range examine(t, plainly(), playing(t, c.lines...).log()).Findings {
			var got []string
			for _, p := range f.WhatIf {
				switch p.Remedy {
				case RemedyHeld, RemedyInformer, RemedyIndex, RemedyResume:
					got = append(got, p.Remedy)
				}
			}
			if f.Kind != c.kind || !slices.Equal(got, []string{c.remedy}) {
				t.Errorf("%s: %q, want %s: %s", f.Kind, got, c.kind, c.remedy)
			}
		}
	}
}

// TestPagesOfSelectedObjects checks that the number of pages of a LIST with a limit depends on the
// number of objects that the LIST selects, not on all objects.
func TestPagesOfSelectedObjects(t *testing.T) {
	for _, c := range []struct {
		query, ns string
		pages     float64
	}{
		{query: "limit=500", pages: 20},
		{query: "limit=500", ns: "team-0", pages: 5}, // a quarter of all objects
		{query: "limit=500&labelSelector=a%3Db", pages: 1},
		{query: "limit=500&fieldSelector=spec.nodeName%3Dn", pages: 1},
		{query: "limit=500&fieldSelector=metadata.name%3Dp", pages: 1},
	} {
		list := "lister list pods ns=" + c.ns + " query=" + c.query
		w := playing(t, "4 every 0s: writer create pods ns=team-{i}", "1 every 0s: "+list, fmt.Sprintf("%v every 1s: %s&continue=abc", c.pages-1, list))
		for _, client := range examine(t, plainly(), w.log()).Clients {
			if client.User == account("lister") && client.Cost.Requests != c.pages {
				t.Errorf("%s of %q: %v requests, want %v", c.query, c.ns, client.Cost.Requests, c.pages)
			}
		}
	}
}

// TestLimits checks that a LIST with a limit sends at most as many objects as its pages allow.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		query                    string
		pages                    int // per LIST
		requests, bytes, objects int64
	}{
		{"limit=1", 1, 400, 400 * 100, 0},
		{"limit=50", 1, 400, 400 * 50 * 100, 400 * 50},
		{"limit=50", 2, 400, 400 * 100 * 100, 400 * 100},
		{"limit=500", 20, 400 * 20, 400 * 1_000_000, 400 * 10_000},
		{"limit=50&resourceVersion=0", 1, 400, 400 * 1_000_000 / 10, 400 * 10_000}, // limit is ignored
	} {
		w := playing(t, "400 every 1m: lister list pods query="+c.query)
		for page := range c.pages - 1 {
			w.play(t, fmt.Sprintf("400 every 1m: lister list pods at=%ds query=%s&continue=abc", page+1, c.query))
		}
		got := examine(t, plainly(), w.log())
		asked := got.Clients[0].Cost
		if int64(asked.Requests+0.5) != c.requests || int64(asked.Bytes+0.5) != c.bytes {
			t.Errorf("%s, %d pages: %+v, want %+v", c.query, c.pages, asked, c)
		}
		read := int64(0)
		for _, f := range got.Findings {
			read += f.Objects
		}
		check.Equal(t, read, c.objects, "%s, %d pages: objects were read", c.query, c.pages)
	}
}

// TestRestartInPages checks that informers that LIST in pages start with one request per page. The
// pages contain only the objects that the informer selects, for example by a namespace or a shard.
func TestRestartInPages(t *testing.T) {
	for ns, requests := range map[string][]float64{"team-1": {40}, "": {40 * 20, 40}} {
		w := playing(t, "40 every 0s: agent list pods machines=40 query=limit=500 ns="+ns,
			"40 every 0s: agent watch pods open machines=40 query=resourceVersion=7&watch=true ns="+ns,
			"30 every 0s: writer create pods ns=team-{i}")
		r := examine(t, plainly(), w.log()).Restart
		if r == nil || r.Killers != 40 {
			t.Fatalf("%+v", r)
		}
		got := []float64{}
		for _, p := range r.Predictions {
			if p.Remedy == RemedyNone || p.Remedy == RemedyShards {
				got = append(got, p.Requests)
			}
		}
		if !slices.Equal(got, requests) {
			t.Errorf("%q: %v requests, want %v", ns, got, requests)
		}
	}
}

// TestRestartCountsAll checks that a Restart counts all starts: the LISTs and WATCHes with which
// clients start. It also counts the starts whose cost cannot be predicted because the number of
// objects is unknown, and names their resources.
func TestRestartCountsAll(t *testing.T) {
	w := newWorld(1)
	for i := range 200 {
		r := someone(fmt.Sprint("client-", i), "watch", "pods")
		r.query, r.open = "resourceVersion=7&watch=true", true
		if i >= 18 {
			r.resource, r.group = fmt.Sprint("kind-", i%40), "example.com"
		}
		w.do(r)
		if i%20 == 0 { // a second informer, of some of the objects
			r.query += "&labelSelector=a%3Db"
			w.do(r)
		}
	}
	kubelet := someone("", "watch", "secrets")
	kubelet.user, kubelet.query, kubelet.open = "system:node:n", "fieldSelector=metadata.name%3Dtoken&watch=true", true
	w.each(7, time.Second, kubelet, nil)
	w.each(3, time.Second, someone("part", "get", "pods"), nil)
	r := examine(t, plainly(), w.log()).Restart
	if r == nil || r.Starts != 200+10+7 || r.Clients != 201 || r.Priced != 18+1 || len(r.Unpriced) != 41 || len(r.Predictions) == 0 {
		t.Fatalf("%+v", r)
	}
	sum := 0.0
	for i, u := range r.Unpriced {
		sum += u.Starts
		if i > 0 && u.Starts > r.Unpriced[i-1].Starts {
			t.Errorf("%+v behind %+v", u, r.Unpriced[i-1])
		}
	}
	if sum != r.Starts-r.Priced {
		t.Errorf("%v without a price, of %v", sum, r.Starts)
	}
	o := plainly()
	o.Objects = nil
	if r := examine(t, o, w.log()).Restart; r == nil || r.Starts != 217 || r.Priced != 0 || r.Predictions == nil || len(r.Predictions) > 0 {
		t.Errorf("without sizes: %+v", r)
	}
}

// TestNothingPredicted checks that nothing is predicted without a model or without the number of
// objects.
func TestNothingPredicted(t *testing.T) {
	log := playing(t, "100 every 30s: p list pods").log()
	for _, o := range []Options{{}, {Model: plain}, {Objects: map[string]int64{"pods": 5}}} {
		r := examine(t, o, log)
		if restart := r.Restart; restart != nil && (o.Model == nil || restart.Priced > 0 || len(restart.Predictions) > 0) || len(r.Findings) != 1 || r.Findings[0].WhatIf != nil || r.Clients[0].Cost != (cost.Cost{}) {
			t.Errorf("%+v: %+v", o, r)
		}
	}
}

// TestSizes checks that sizes from flags take precedence over sizes from a server, and sizes from a
// server over estimates.
func TestSizes(t *testing.T) {
	w := playing(t, "3 every 1m: p list pods", "3 every 1m: p list nodes", "3 every 1m: p list secrets", "3 every 1m: p list endpoints",
		"1000 every 0s: kubelet patch secrets ns=team-{i%10} object=s-{i}", "500 every 0s: kubelet delete secrets ns=team-{i%10} object=s-{i}")
	r := examine(t, Options{
		Model: plain, Objects: map[string]int64{"pods": 7, "nodes": 5}, Bytes: map[string]int64{"nodes": 900},
		ObjectsAsked: map[string]bool{"nodes": true}, BytesAsked: map[string]bool{"nodes": true},
	}, w.log())
	if len(r.Sizes) != 3 {
		t.Fatalf("%+v", r.Sizes)
	}
	check.Equal(t, r.Sizes[0], (Size{"nodes", 5, FromServer, 900, FromServer}))
	check.Equal(t, r.Sizes[1], (Size{"pods", 7, FromFlag, podBytes, FromDefault}))
	if got := r.Sizes[2]; got.Resource != "secrets" || got.ObjectsFrom != FromLog || got.Objects < 350 || got.Objects > 650 {
		t.Errorf("%+v, want some 500", got)
	}
}

// TestRestart checks that a Restart names the client that needs most CPU time and counts all
// clients that start. A client that occasionally LISTs some objects does not count.
func TestRestart(t *testing.T) {
	w := playing(t, "40 every 0s: agent watch pods at=4h open machines=40 query=sendInitialEvents=true&watch=true",
		"5 every 1h: part list pods query=labelSelector=a%3Db")
	w.informer(someone("controller", "list", "services"), 0, time.Hour)
	o := plainly()
	o.Resident = 1_000_000_000
	r := examine(t, o, w.log()).Restart
	if r == nil || r.Killer.User != account("agent") || r.Resource != "pods" || r.Killers != 40 || r.Starts != 41 || !r.Whole {
		t.Fatalf("%+v", r)
	}
	var names []string
	for _, p := range r.Predictions {
		names = append(names, p.Remedy)
	}
	if want := []string{RemedyNone, RemedyCache, RemedyPages, RemedyNode, RemedyShards, RemedyProxy}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if now, node, proxy := r.Predictions[0], r.Predictions[3], r.Predictions[5]; now.CPUSeconds < 40*(1+10+2) || node.Bytes > now.Bytes/50 || proxy.Bytes != 0 || proxy.ProxyCPUSeconds <= 0 {
		t.Errorf("%+v", r.Predictions)
	}
	// Each of the 40 WATCHes needs 100 of the 600 seats, so 6 run at the same time.
	if got, want := r.PeakBytes[0], 1.5e9+6*0.5e6; got < want || got > 1.001*want {
		t.Errorf("a peak of %v, want %v", got, want)
	}
}

// TestEncodings checks that clients get JSON for a custom resource, or if they are kubectl.
func TestEncodings(t *testing.T) {
	for _, tt := range []struct {
		agent, resource string
		sent            float64
		want            cost.Encoding
	}{
		{"a/v1", "pods", 1e6, cost.ProtobufGzip},
		{"a/v1", "pods", 1000, cost.Protobuf},
		{"a/v1", "deployments.apps", 1000, cost.Protobuf},
		{"a/v1", "leases.coordination.k8s.io", 1000, cost.Protobuf},
		{"a/v1", "gateways.gateway.networking.x-k8s.io", 1000, cost.JSON},
		{"a/v1", "certificates.cert-manager.io", 1e6, cost.JSONGzip},
		{"kubectl/v1.37", "pods", 1e6, cost.JSONGzip},
	} {
		check.Equal(t, encoding(Client{Agent: tt.agent}, tt.resource, tt.sent), tt.want, "%s of %s", tt.resource, tt.agent)
	}
}
