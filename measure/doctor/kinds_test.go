package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
)

// TestKinds checks that each kind that doctor finds in audit logs has an example in testdata/kinds.
// An example contains requests and the expected report. The report has no other finding.
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

// reported separates the requests of an example from the report.
const reported = "-- report --\n"

// playing returns a world with the requests of lines; see play.
func playing(t *testing.T, lines ...string) *world {
	t.Helper()
	w := newWorld(1)
	for _, line := range lines {
		w.play(t, line)
	}
	return w
}

// numbered matches {i}, {i/N} and {i%N}, where i is the number of a request.
var numbered = regexp.MustCompile(`\{i(?:([/%])(\d+))?\}`)

// play adds the requests that a line describes, such as "100 every 30s: poller list pods took=1s
// ns=shop": their number, their interval, the client, the verb, the resource and further fields.
// {i} is the number of the request; {i%5} and {i/5} are computed from it. With machines=N, N
// machines send the requests in turn. With at=1h,3h, the requests are repeated at each of these
// times.
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
	machines, starts := 1, "0s"
	texts := map[string]*string{
		"query": &r.query, "ns": &r.ns, "object": &r.object, "sub": &r.sub, "user": &r.user, "pod": &r.pod, "reason": &r.reason,
	}
	for _, field := range fields[3:] {
		name, value, _ := strings.Cut(field, "=")
		switch {
		case texts[name] != nil:
			*texts[name] = value
		case name == "at":
			starts = value
		case name == "took":
			r.took = duration(value)
		case name == "queued":
			r.queued = duration(value)
		case name == "code":
			r.code = number(value)
		case name == "machines":
			machines = number(value)
		case name == "agent":
			r.agent = program(value)
		case name == "open":
			r.open = true
		default:
			t.Fatalf("%s: what is %s?", line, name)
		}
	}
	template := r
	for start := range strings.SplitSeq(starts, ",") {
		for i := range n {
			r = template
			r.at, r.ip = duration(start)+time.Duration(i)*duration(every), fmt.Sprintf("10.9.%d.%d", i%machines/250, i%machines%250)
			for _, text := range texts {
				*text = numbered.ReplaceAllStringFunc(*text, func(match string) string {
					switch parts := numbered.FindStringSubmatch(match); parts[1] {
					case "%":
						return strconv.Itoa(i % number(parts[2]))
					case "/":
						return strconv.Itoa(i / number(parts[2]))
					}
					return strconv.Itoa(i)
				})
			}
			w.do(r)
		}
	}
}

// writeFinding writes a finding as text.
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

// TestKindsDocumented checks that docs/howto/doctor.md has the rows of each kind. With -rewrite it
// writes them.
func TestKindsDocumented(t *testing.T) {
	const path, columns, end = "../../docs/howto/doctor.md", "\n|---|---|---|\n", "\n\n"
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

// TestRestartAfterKills checks WATCHes of a server that was killed, which have no end in the log.
// Such a WATCH counts as open no longer than its timeout. A WATCH without a timeout counts as open
// no longer than the server's limit.
func TestRestartAfterKills(t *testing.T) {
	for _, timeout := range []string{"", "&timeoutSeconds=420"} {
		w := playing(t, "40 every 0s: agent watch pods at=0s,2h,4h open machines=40 query=resourceVersion=7&watch=true"+timeout,
			"10 every 1m: other get pods at=4h")
		got := examine(t, plainly(), w.log())
		if got.Restart == nil || got.Restart.Killers != 40 || got.Totals.Watches != 40 {
			t.Errorf("%q: %+v, %+v", timeout, got.Totals, got.Restart)
		}
	}
}

// TestLongWatches checks that if one WATCH has lasted longer than an hour, other open WATCHes of
// that age also count.
func TestLongWatches(t *testing.T) {
	w := playing(t, "40 every 0s: agent watch pods open machines=40 query=resourceVersion=7&watch=true",
		"1 every 0s: other watch pods took=90m query=resourceVersion=7&watch=true", "10 every 10m: other get pods")
	if got := examine(t, plainly(), w.log()); got.Totals.Watches != 41 {
		t.Errorf("%+v", got.Totals)
	}
}
