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
