package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
)

// TestKinds: each kind that audit logs show has an example in testdata/kinds: requests, and what is
// reported of them and of nothing else.
func TestKinds(t *testing.T) {
	for _, k := range kinds {
		if k.find == nil && k.findAll == nil {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			path := filepath.Join("testdata/kinds", k.name+".txt")
			text, err := os.ReadFile(path)
			check.NoError(t, err)
			requests, _, _ := strings.Cut(string(text), reported)
			w := newWorld(1)
			for line := range strings.Lines(requests) {
				if !strings.HasPrefix(line, "#") {
					w.play(t, strings.TrimSpace(line))
				}
			}
			var b strings.Builder
			b.WriteString(requests + reported)
			for _, f := range examine(t, plainly(), w.log()).Findings {
				writeFinding(&b, f)
				check.Equal(t, f.Kind, k.name, "found")
			}
			golden.File(t, path, b.String())
			if _, err := os.Stat(filepath.Join("../../docs/incidents", k.incident+".md")); k.incident != "" && err != nil {
				t.Error(err)
			}
		})
	}
}

// reported is between the requests of an example and the report.
const reported = "-- report --\n"

// play adds requests: how many, how far apart, and the client, the verb, the resource and what else
// there is of each, such as "100 every 30s: poller list pods took=1s ns=shop". {i} is the request's
// number; with machines=N they come from N machines in turn.
func (w *world) play(t *testing.T, line string) {
	t.Helper()
	var n int
	var every string
	head, tail, _ := strings.Cut(line, ": ")
	fields := strings.Fields(tail)
	if _, err := fmt.Sscanf(head, "%d every %s", &n, &every); err != nil || len(fields) < 3 {
		t.Fatalf("%s: %v", line, err)
	}
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return d
	}
	number := func(text string) int {
		i, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return i
	}
	r := someone(fields[0], fields[1], fields[2])
	r.resource, r.group, _ = strings.Cut(r.resource, ".")
	machines := 1
	for _, field := range fields[3:] {
		switch name, value, _ := strings.Cut(field, "="); name {
		case "at":
			r.at = duration(value)
		case "took":
			r.took = duration(value)
		case "query":
			r.query = value
		case "ns":
			r.ns = value
		case "object":
			r.object = value
		case "sub":
			r.sub = value
		case "code":
			r.code = number(value)
		case "machines":
			machines = number(value)
		case "open":
			r.open = true
		default:
			t.Fatalf("%s: what is %s?", line, name)
		}
	}
	w.each(n, duration(every), r, func(i int, r *request) {
		r.ip = fmt.Sprint("10.9.0.", i%machines)
		r.query, r.object = strings.ReplaceAll(r.query, "{i}", strconv.Itoa(i)), strings.ReplaceAll(r.object, "{i}", strconv.Itoa(i))
	})
}

// writeFinding writes a finding for people to check.
func writeFinding(b *strings.Builder, f Finding) {
	fmt.Fprintf(b, "%s: %s: %s\n%s.\nCount %d, %.3g s, objects %d\nRemedy: %s.\n", f.Kind, f.Client, f.Resource, f.Text, f.Count, f.Seconds, f.Objects, f.Remedy)
	if f.Change != "" {
		fmt.Fprintf(b, "Write: %s\n", f.Change)
	}
	if f.Incident != "" {
		fmt.Fprintf(b, "See %s\n", f.Incident)
	}
	for _, p := range f.WhatIf {
		fmt.Fprintf(b, "%s: %.4g requests, %.4g bytes, %.4g s, held %.4g bytes, proxy %.4g s\n",
			p.Remedy, p.Requests, p.Bytes, p.CPUSeconds, p.HeldBytes, p.ProxyCPUSeconds)
	}
}

// TestKindsDocumented: docs/doctor.md has the rows of each kind; -rewrite writes them.
func TestKindsDocumented(t *testing.T) {
	const path, columns, end = "../../docs/doctor.md", "\n|---|---|---|\n", "\n\n"
	file, err := os.ReadFile(path)
	check.NoError(t, err)
	text := string(file)
	table := func(head string, row func(k *kind) (does, from string)) {
		before, behind, found := strings.Cut(text, head+columns)
		_, behind, ends := strings.Cut(behind, end)
		if !found || !ends {
			t.Fatalf("the table %s is gone", head)
		}
		var rows []string
		for _, k := range kinds {
			if does, from := row(k); does != "" {
				rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", k.name, does, from))
			}
		}
		text = before + head + columns + strings.Join(rows, "\n") + end + behind
	}
	table("| kind (`-o json`) | what the client does | found from |", func(k *kind) (string, string) { return k.does, k.from })
	table("| kind (`-o json`) | what happens | found from, in a minute |", func(k *kind) (string, string) { return k.metricsDo, k.metricsFrom })
	golden.File(t, path, text)
}

// TestRestartAfterKills: a WATCH that a killed server cut off has no end in the log. It is not
// taken to go on beyond what it asked for, or what the server lets any last.
func TestRestartAfterKills(t *testing.T) {
	for _, timeout := range []string{"", "&timeoutSeconds=420"} {
		w := newWorld(1)
		for _, at := range []time.Duration{0, 2 * time.Hour, 4 * time.Hour} {
			for i := range 40 {
				r := someone("agent", "watch", "pods")
				r.at, r.ip, r.query, r.open = at, fmt.Sprint("10.7.0.", i), "resourceVersion=7&watch=true"+timeout, true
				w.do(r)
			}
			w.each(10, time.Minute, request{at: at, user: "other", agent: program("other"), verb: "get", resource: "pods"}, nil)
		}
		got := examine(t, plainly(), w.log())
		if got.Restart == nil || got.Restart.Killers != 40 || got.Totals.Watches != 40 {
			t.Errorf("%q: %+v, %+v", timeout, got.Totals, got.Restart)
		}
	}
}

// TestLongWatches: where a WATCH has lasted for longer than an hour others may as well.
func TestLongWatches(t *testing.T) {
	w := newWorld(1)
	for i := range 40 {
		r := someone("agent", "watch", "pods")
		r.ip, r.query, r.open = fmt.Sprint("10.7.0.", i), "resourceVersion=7&watch=true", true
		w.do(r)
	}
	r := someone("other", "watch", "pods")
	r.query, r.took = "resourceVersion=7&watch=true", 90*time.Minute
	w.do(r)
	w.each(10, 10*time.Minute, request{user: "other", agent: program("other"), verb: "get", resource: "pods"}, nil)
	if got := examine(t, plainly(), w.log()); got.Totals.Watches != 41 {
		t.Errorf("%+v", got.Totals)
	}
}

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
