package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// hostile is a user agent of a hostile client.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>` + "\x1b[2J\u202e'&"

// aReport returns a report with one of each thing that a report can contain.
func aReport() *doctor.Report {
	who := doctor.Client{User: "system:serviceaccount:shop:exporter", Agent: "exporter/v1.0"}
	from := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	predictions := []doctor.Prediction{
		{Remedy: doctor.RemedyNone, Cost: cost.Cost{Requests: 24, Bytes: 480e6, CPUSeconds: 44.4}, HeldBytes: 71e6},
		{Remedy: doctor.RemedyInformer, Cost: cost.Cost{Requests: 1, Bytes: 250e6, CPUSeconds: 1.16}, HeldBytes: 71e6},
		{Remedy: doctor.RemedyProxy, Cost: cost.Cost{Requests: 25, Bytes: 250e6, CPUSeconds: 3.18}, ProxyCPUSeconds: 16.9},
	}
	return &doctor.Report{
		From: from, To: from.Add(time.Minute), Totals: doctor.Totals{Requests: 26, Lists: 25, Watches: 1, ListSeconds: 12.2},
		Clients: []doctor.ClientReport{
			{Client: who, Totals: doctor.Totals{Requests: 24, Lists: 24, ListSeconds: 12}, Machines: 1, Cost: predictions[0].Cost, HeldBytes: 71e6},
			{Client: doctor.Client{User: hostile, Agent: hostile}, Totals: doctor.Totals{Requests: 2, Lists: 1}, Machines: 1},
		},
		Headline:      &doctor.Headline{Client: doctor.Client{User: hostile, Agent: hostile}, Share: 0.61, Work: doctor.WorkCPU, Objects: 22_750_000, Finding: 1},
		OthersClients: 1,
		Rate: doctor.Rate{
			Seconds: 30, Requests: []uint32{12, 14}, Lists: []uint32{12, 13}, Refused: []uint32{0, 1},
			Busiest: []doctor.Busy{
				{Client: who, UnderWay: []float64{0.2, 0.4}},
				{Client: doctor.Client{User: "u", Agent: hostile}, UnderWay: []float64{0, 0.1}},
			},
		},
		Findings: []doctor.Finding{
			{Kind: doctor.FindingPolling, Client: who, Resource: "pods", Text: "LISTs all pods every 30 s", Remedy: "hold an informer", Change: `lister.List("<all>")`,
				Incident: "concurrent-lists", WhatIf: predictions},
			{Kind: doctor.FindingRelist, Client: doctor.Client{User: hostile}, Text: "LISTs " + hostile, Remedy: "resume the WATCH"},
		},
		Sizes: []doctor.Size{{Resource: "pods", Objects: 50_000, ObjectsFrom: doctor.FromFlag, Bytes: 5000, BytesFrom: doctor.FromDefault},
			{Resource: hostile, Objects: 1, ObjectsFrom: doctor.FromLog, Bytes: 2000, BytesFrom: doctor.FromDefault}},
		Restart: &doctor.Restart{Starts: 5, Clients: 2, Priced: 3, Unpriced: []doctor.Unpriced{{Resource: hostile, Starts: 2}}, Killer: doctor.Client{User: hostile}, Resource: hostile, Killers: 2, Predictions: predictions, PeakBytes: []float64{1e9, 2e9, 3e9}},
	}
}

var aModel = &cost.Model{
	Measured: cost.Measured{At: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Server: "kube-apiserver v1", CPU: "a CPU", CPUs: 2, Objects: 10_000, ObjectBytes: 4970},
	Checks:   []cost.Check{{Incident: "node-agents", Way: `LIST of all, ""`, Figure: cost.CPUFigure, Want: 2, Got: 2.5}},
}

// TestDoctorPage checks that the HTML page equals the golden file. No text of a report may become a
// tag, a script or a reference that a browser loads.
func TestDoctorPage(t *testing.T) {
	var out bytes.Buffer
	read := evidence.Counts{
		Malformed: 3, Causes: map[string]int64{string(evidence.ErrCutOff): 1, string(evidence.ErrNoTime): 2}, TooLong: 1, Damaged: []string{hostile + ": unexpected EOF"},
	}
	check.NoError(t, newPage(aReport(), read, aModel, 10).write(&out))
	checkPage(t, out.String())
	golden.Check(t, "doctor.html", out.String())
}

// TestDoctorText checks that the text output equals the golden file.
func TestDoctorText(t *testing.T) {
	var out bytes.Buffer
	check.NoError(t, newPrescription(&out).print(newPage(aReport(), evidence.Counts{}, nil, 10)))
	if strings.ContainsAny(out.String(), "\x1b\u202e") {
		t.Errorf("a name reaches the terminal:\n%q", &out)
	}
	golden.Check(t, "doctor.txt", out.String())
}

// TestHeadlines checks the sentence about each kind of headline.
func TestHeadlines(t *testing.T) {
	findings := []doctor.Finding{
		{Kind: doctor.FindingPolling, Change: "lister.List()"}, {Kind: doctor.FindingRefused, Change: "subjects"},
		{Kind: doctor.FindingGets, Change: "kubectl get -w"}, {},
	}
	for _, tt := range []struct {
		h    doctor.Headline
		want string
	}{
		{doctor.Headline{Work: doctor.WorkCPU, Objects: 22_750_000}, "a/v1 caused 61 % of the API server's predicted work: 22.8 million objects read; one line fixes it (finding 1)."},
		{doctor.Headline{Work: doctor.WorkCPU, Objects: 22_750, Finding: 2}, "a/v1 caused 61 % of the API server's predicted work: 22,750 objects read; one command replaces that (finding 3)."},
		{doctor.Headline{Work: doctor.WorkTime, Finding: 1, Totals: doctor.Totals{Lists: 4, ListSeconds: 90}}, "a/v1 caused 61 % of the time that LISTs took: 4 LISTs in 1.5 min; finding 2 says what to change."},
		{doctor.Headline{Work: doctor.WorkTime, Finding: 3, Totals: doctor.Totals{Lists: 4, ListSeconds: 9}}, "a/v1 caused 61 % of the time that LISTs took: 4 LISTs in 9 s; finding 4 says what to change."},
		{doctor.Headline{Work: doctor.WorkRequests, Finding: -1, Totals: doctor.Totals{Requests: 1234}, Why: "it rests"}, "a/v1 sent 61 % of the requests: 1,234 requests. Doctor has no finding about it: it rests."},
	} {
		tt.h.Client.Agent, tt.h.Share = "a/v1", 0.61
		check.Equal(t, headlineText(&doctor.Report{Headline: &tt.h, Findings: findings}), tt.want, "headline")
	}
}

// TestEmptyPage checks that a report without contents gives a valid page.
func TestEmptyPage(t *testing.T) {
	var out bytes.Buffer
	check.NoError(t, newPage(&doctor.Report{Restart: &doctor.Restart{Starts: 1}}, evidence.Counts{}, aModel, 0).write(&out))
	checkPage(t, out.String())
	if text := out.String(); !strings.Contains(text, "no client costs much more") || strings.Contains(text, "Where CPU is less") {
		t.Error(text)
	}
}

// TestLivePage checks that the report on a server's metrics gives a valid page, also with hostile
// names of resources.
func TestLivePage(t *testing.T) {
	var out bytes.Buffer
	err := newLivePage(&doctor.Live{
		MetricsReport: &evidence.MetricsReport{
			Version: hostile, Seconds: 60, Requests: 5,
			Resources: []evidence.ResourceMetrics{{Name: hostile, Objects: 5, Lists: 2, ListSeconds: 1}, {Name: "pods", Objects: 9, Lists: 1, ListSeconds: 3}},
		},
		Findings: []doctor.Finding{{Kind: doctor.FindingSlow, Resource: hostile, Text: hostile, Remedy: "read faster"}},
	}, 10).write(&out)
	check.NoError(t, err)
	checkPage(t, out.String())
	for _, want := range []string{"Time that LISTs took, in 1m0s", "<td>pods</td>", "read faster", "LISTs of pods caused 75 % of the time that LISTs took: 1 LISTs; none of"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// loads matches tags with an attribute that makes a browser load a file or run code.
var loads = regexp.MustCompile(`<[a-zA-Z][^<>]*\s(src|on[a-z]+)=`)

// checkPage fails t if a page contains hostile text that is not escaped, or would load something.
func checkPage(t *testing.T, text string) {
	t.Helper()
	for _, not := range []string{"<script", "<img", "<link", "@import", "url(", "javascript:", "\x1b", "\u202e", "ZgotmplZ"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q:\n%s", not, text)
		}
	}
	check.Equal(t, loads.FindString(text), "", "the page has")
	if !strings.Contains(text, "default-src 'none'") {
		t.Error("scripts of others are not ruled out")
	}
}

const pagesDir = "../../docs/commands"

// TestPages checks that docs/commands has exactly one page per command, equal to the command's
// help. If a command runs another program, that program's tests write the page, because they know
// its flags and verbs.
func TestPages(t *testing.T) {
	root := newRoot()
	pages := map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.DisableFlagParsing {
			pages[golden.PageName(cmd.CommandPath())] = true
		} else if cmd == root || cmd.IsAvailableCommand() && cmd.Name() != "help" {
			pages[golden.PageName(cmd.CommandPath())] = true
			golden.CheckPage(t, pagesDir, pageOf(cmd))
		}
	}
	entries, err := os.ReadDir(pagesDir)
	check.NoError(t, err)
	for _, entry := range entries {
		if !pages[entry.Name()] && !strings.HasPrefix(entry.Name(), "weir-bench-") {
			t.Errorf("docs/commands/%s is the page of no command", entry.Name())
		}
		delete(pages, entry.Name())
	}
	for name := range pages {
		t.Errorf("docs/commands has no %s", name)
	}
}

// pageOf returns the contents of a command's page.
func pageOf(cmd *cobra.Command) golden.Page {
	page := golden.Page{
		Command: cmd.CommandPath(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		// Call LocalFlags before UseLine: UseLine then also knows the flags that verbs share.
		Flags: cmd.LocalFlags().FlagUsages(), Use: cmd.UseLine(),
	}
	for _, verb := range cmd.Commands() { // by their names
		if verb.IsAvailableCommand() && verb.Name() != "help" {
			page.Verbs = append(page.Verbs, golden.Page{Command: verb.CommandPath(), Short: verb.Short})
		}
	}
	return page
}

// TestDoctorInterrupted checks that an interrupt ends the command while it waits for its standard
// input.
func TestDoctorInterrupted(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close() // ends the goroutine that still reads
	ctx, interrupt := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"doctor", "-"})
	root.SetIn(in)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	if _, err := out.Write([]byte("{}\n")); err != nil { // returns after the command has read it
		t.Fatal(err)
	}
	interrupt()
	select {
	case err := <-ended:
		check.ErrorIs(t, err, errInterrupted, "it ended with")
	case <-time.After(time.Minute):
		t.Fatal("it waits for its standard input")
	}
}
