package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"html"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
	"github.com/weirproject/weir/measure/bench/internal/servers"
)

// TestReplay replays a small version of every incident, and writes the report in all its forms. It
// checks that the figures exist and are possible, but not that they are good.
func TestReplay(t *testing.T) {
	const pods = 120 // with fewer than 100, the proxy would pass current reads on
	server, err := process.StartServer(t.Context(), process.ServerSpec{Pods: pods, Seed: 1})
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	proxy, done, err := command.Proxy.Find(t.Context(), io.Discard)
	check.NoError(t, err)
	t.Cleanup(done)
	for _, i := range incidents() {
		t.Run(i.Name, func(t *testing.T) {
			t.Parallel()
			i, sides := tiny(i)
			var progress bytes.Buffer
			f := &labFlags{
				Options: informers.Options{Config: server.Config(), Server: server.URL, Objects: pods, Progress: &progress},
				proxy:   proxy, incidents: []incident{i},
			}
			r, err := f.replay(t.Context())
			check.NoError(t, err)
			if n := strings.Count(progress.String(), "\n1/1 ") + strings.Count(progress.String()[:4], "1/1 "); n != sides {
				t.Errorf("%d lines of progress for %d sides:\n%s", n, sides, &progress)
			}
			checkSides(t, r.Incidents[0])
			checkCounts(t, r.Incidents[0], pods)
			checkForms(t, r)
		})
	}
}

const (
	tinyAgents, tinyReaders = 5, 3
	// longest limits waits that are short unless the machine is busy.
	longest = 5 * time.Minute
)

// tiny returns a small version of the incident, with few clients and short times, and the number of
// the incident's sides.
func tiny(i incident) (incident, int) {
	if r, ok := i.replay.(serverReplay); ok {
		prepare := r.prepare
		r.prepare = func(o *servers.Options) {
			prepare(o)
			o.Kubelets, o.Herd, o.SlowProtobuf, o.SlowJSON, o.SlowBytes = tinyAgents, tinyAgents, tinyReaders-1, 1, 1e6
			o.Resync, o.ReadRate, o.Duration, o.Patience = time.Second, 600, longest, longest
		}
		i.replay = r
		return i, len(r.Ways)
	}
	r := i.replay.(informerReplay)
	r.prepare = func(o *informers.Options) { o.Period, o.Duration, o.Relists = time.Second, 300*time.Millisecond, 2 }
	i.replay = r
	return i, len(r.Sides)
}

// checkSides checks that every side has its figures, and a line that can be drawn.
func checkSides(t *testing.T, i replayed) {
	t.Helper()
	for _, s := range i.Sides {
		for _, f := range i.figures {
			if _, ok := s.Figures[f.Key]; !ok && (f.Key != "proxyCPUSeconds" || strings.Contains(s.Label, "proxy")) {
				t.Errorf("%s has no %s", s.Label, f.Key)
			}
		}
		samples := len(s.Trace.RSSBytes)
		heaps := samples
		if !i.ofInformers() {
			heaps = 0 // a server's heap is not measured
		}
		if samples < 2 || len(s.Trace.HeapBytes) != heaps || len(s.Trace.CPUSeconds) != samples || len(s.Trace.Events) != samples {
			t.Errorf("%s has %d, %d, %d and %d samples", s.Label, samples, len(s.Trace.HeapBytes), len(s.Trace.CPUSeconds), len(s.Trace.Events))
		}
		// A server with little work may have used no CPU time, because Linux counts it in ticks.
		if l := i.curve.lineOf(s.Label, s.Trace); l.Peak <= 0 && i.curve.unit != figures.Seconds || l.Every*float64(len(l.At)-1) <= 0 {
			t.Errorf("nothing to draw of %s: peak %v in %v s", s.Label, l.Peak, l.Every*float64(len(l.At)-1))
		}
		if s.Trace.Events[samples-1] == 0 {
			t.Errorf("%s was told of nothing", s.Label)
		}
		if len(s.Trace.Marks) == 0 || s.Trace.Marks[0].What != figures.Starts {
			t.Errorf("%s begins with %v", s.Label, s.Trace.Marks)
		}
	}
}

// checkCounts checks the figures that do not depend on the machine's speed, for an incident of
// servers.
func checkCounts(t *testing.T, i replayed, pods float64) {
	t.Helper()
	want := func(side, figure string, least, most float64) {
		t.Helper()
		n := slices.IndexFunc(i.Sides, func(s figures.Traced) bool { return s.Label == side })
		if n < 0 {
			t.Fatalf("no side %s", side)
		}
		if got, ok := i.Sides[n].Figures[figure]; !ok || got < least || got > most {
			t.Errorf("%s: %s is %v, want %v to %v", side, figure, got, least, most)
		}
	}
	const proxied = "through weir-proxy"
	switch i.Name {
	case "resync-storm":
		for _, s := range i.Sides {
			want(s.Label, "calls", pods, pods)
		}
		want(`client-go, LIST ""`, "requests", pods, pods)
		want(`client-go, LIST "0"`, "requests", pods, pods)
		want("client-go, filtered", "requests", 1, pods/2)
		want(proxied, "requests", 0, pods/2)
		want("Weir, index", "requests", 0, 0)
	case "node-agents":
		want(`LIST of all, ""`, "requests", tinyAgents, tinyAgents)
		want(`LIST of all, "0"`, "bytes", tinyAgents*pods*1000, 1e9)
		want("by field selector", "bytes", 1000, tinyAgents*pods*1000)
		want(proxied, "bytes", tinyAgents*pods*1000, 1e9)
	case "initial-events":
		for _, s := range i.Sides { // the API server may close the watch of a client that waits too long
			want(s.Label, "received", pods, 1e9)
			want(s.Label, "through", 1, 1)
		}
		want("weir-proxy", "restarts", 0, 0)
	case "concurrent-lists":
		for _, s := range i.Sides {
			want(s.Label, "broken", 0, 0)
		}
		want("API server", "requests", tinyReaders, tinyReaders)
		want("weir-proxy", "requests", 0, 0)
	case "thundering-restart":
		want("client-go, LIST", "requests", tinyAgents, tinyAgents)
		want("client-go, WATCH", "requests", tinyAgents, tinyAgents)
		want("client-go, WATCH", "clients", tinyAgents, tinyAgents)
	}
}

// checkForms checks that the written table, JSON, pictures and page can be read.
func checkForms(t *testing.T, r *labReport) {
	t.Helper()
	var table, raw, page bytes.Buffer
	for _, err := range []error{r.writeTable(&table), figures.WriteJSON(&raw, r), r.writePage(&page)} {
		check.NoError(t, err)
	}
	for line := range strings.Lines(table.String()) {
		if n := len([]rune(line)); n > 101 {
			t.Errorf("a line of %d columns: %s", n-1, line)
		}
	}
	back := &labReport{}
	if err := json.Unmarshal(raw.Bytes(), back); err != nil || len(back.Incidents[0].Sides) != len(r.Incidents[0].Sides) {
		t.Errorf("JSON gives %+v, %v", back, err)
	}
	for _, want := range []string{"<svg", html.EscapeString(r.Incidents[0].Sides[0].Label), r.Incidents[0].Name} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, outside := range []string{"src=", "href=", "url("} {
		if strings.Contains(page.String(), outside) {
			t.Errorf("the page needs something from outside: %q", outside)
		}
	}
	checkXML(t, r.chart(r.Incidents[0]))
}

func checkXML(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
}

// podsAsked is a replay that records how many pods it should use.
type podsAsked struct{ pods int }

func (p *podsAsked) run(_ context.Context, f *labFlags, _ func(figures.Traced)) error {
	p.pods = f.Objects
	return nil
}

// TestFewPods checks that an incident has as many agents or controllers as its text says. If the
// user sets the number of pods, the incident uses that number.
func TestFewPods(t *testing.T) {
	story := map[string]string{"node-agents": "2,000 agents", "thundering-restart": "200 controllers"}
	for _, i := range incidents() {
		for _, f := range []labFlags{{few: true}, {}, {few: true, real: "yes"}} {
			asked := &podsAsked{}
			i.replay, f.Objects = asked, 10_000
			out, err := i.run(t.Context(), &f, nil)
			check.NoError(t, err)
			few := f.few && f.real == "" && story[i.Name] != ""
			if fewer := asked.pods < 10_000; fewer != few || asked.pods != out.Pods {
				t.Errorf("%s: asked for %d pods, %d reported", i.Name, asked.pods, out.Pods)
			}
			if few && !strings.Contains(out.title(), story[i.Name]) {
				t.Errorf("%s: %q", i.Name, out.title())
			}
		}
	}
}

// TestTitles checks that titles state the values of the lines: each word in braces has a value.
func TestTitles(t *testing.T) {
	const first, last = 3e9, 1e9
	for _, i := range incidents() {
		r := replayed{incident: i, Pods: 10_000}
		trace := figures.Trace{
			EveryMillis: 1000, RSSBytes: []float64{first, last}, HeapBytes: []float64{first, last},
			CPUSeconds: []float64{0, first}, Events: []float64{0, first},
		}
		var labels []string
		switch of := i.replay.(type) {
		case informerReplay:
			for _, s := range of.Sides {
				labels = append(labels, s.Label)
			}
		case serverReplay:
			for _, w := range of.Ways {
				labels = append(labels, w.Label)
			}
		}
		for _, label := range labels {
			r.Sides = append(r.Sides, figures.Traced{Label: label, Trace: trace})
		}
		want := i.curve.unit.Text(first)
		if strings.Contains(i.Title, "{last ") {
			want = i.curve.unit.Text(last)
		}
		if title := r.title(); strings.ContainsAny(title, "{}") || strings.Count(title, want) < 2 || !strings.Contains(title, "10,000") {
			t.Errorf("%s: %q", i.Name, title)
		}
	}
}

// TestLineOf checks that a line starts at the mark figures.Starts, when the informer starts.
func TestLineOf(t *testing.T) {
	trace := figures.Trace{EveryMillis: 100, Events: []float64{0, 0, 0, 5, 5, 9}, Marks: []figures.Mark{{Millis: 210, What: figures.Starts}}}
	got := callRate.lineOf("a", trace)
	if diff := cmp.Diff([]float64{0, 5, 0, 4}, got.At); diff != "" || got.Peak != 5 {
		t.Errorf("peak %v, %s", got.Peak, diff)
	}
	check.Equal(t, got.Every, 0.1, "a point every s")
}

// TestIncidentPages checks that each incident has a page in docs/incidents, with its picture and
// the command that replays it.
func TestIncidentPages(t *testing.T) {
	const dir = "../../../../docs/incidents"
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	check.NoError(t, err)
	for _, i := range incidents() {
		page, err := os.ReadFile(filepath.Join(dir, i.Name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{"](" + i.Name + ".svg)", "weir lab " + i.Name, "## The mechanism", "## How to recognise it", "## What Weir does instead"} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page of %s has no %q", i.Name, want)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, i.Name+".svg")); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(index), "("+i.Name+".md)") {
			t.Errorf("the list of incidents has no %s", i.Name)
		}
	}
}
