package lab

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/bench/internal/informers"
	"github.com/weirproject/weir/internal/childserver"
)

// TestRun replays every incident with tiny numbers, and writes the report in all its forms: it looks
// for what is there and possible, not for good figures.
func TestRun(t *testing.T) {
	const pods = 60
	server, err := childserver.Start(t.Context(), childserver.Spec{Pods: pods, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	for _, i := range Incidents() {
		t.Run(i.Name, func(t *testing.T) {
			t.Parallel()
			i.prepare = func(o *informers.Options) { o.Period, o.Duration, o.Relists = time.Second, 300*time.Millisecond, 2 }
			var progress bytes.Buffer
			r, err := Run(t.Context(), []Incident{i}, informers.Options{Config: server.Config(), Server: server.URL, Objects: pods, Progress: &progress})
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(progress.String(), "\n"); n != len(i.replay.Sides) {
				t.Errorf("%d lines of progress for %d sides:\n%s", n, len(i.replay.Sides), &progress)
			}
			checkSides(t, r.Incidents[0])
			checkForms(t, r)
		})
	}
}

// checkSides demands that every side has its figures, and that there is a line to be drawn of it.
func checkSides(t *testing.T, i Replayed) {
	t.Helper()
	for _, s := range i.Sides {
		for _, f := range i.figures {
			if _, ok := s.Figures[f.Key]; !ok {
				t.Errorf("%s has no %s", s.Label, f.Key)
			}
		}
		samples := len(s.Trace.RSSBytes)
		if samples < 2 || len(s.Trace.HeapBytes) != samples || len(s.Trace.CPUSeconds) != samples || len(s.Trace.Events) != samples {
			t.Errorf("%s has %d, %d, %d and %d samples", s.Label, samples, len(s.Trace.HeapBytes), len(s.Trace.CPUSeconds), len(s.Trace.Events))
		}
		if l := i.curve.lineOf(s.Label, s.Trace); l.peak <= 0 || l.seconds() <= 0 {
			t.Errorf("nothing to draw of %s: peak %v in %v s", s.Label, l.peak, l.seconds())
		}
		if s.Trace.Events[samples-1] == 0 {
			t.Errorf("%s was told of nothing", s.Label)
		}
		if len(s.Trace.Marks) == 0 || s.Trace.Marks[0].What != informers.MarkStarts {
			t.Errorf("%s begins with %v", s.Label, s.Trace.Marks)
		}
	}
}

// checkForms demands that what is written can be read.
func checkForms(t *testing.T, r *Report) {
	t.Helper()
	var table, raw, page bytes.Buffer
	for _, err := range []error{r.WriteTable(&table), r.WriteJSON(&raw), r.WritePage(&page)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(table.String()) {
		if n := len([]rune(line)); n > 101 {
			t.Errorf("a line of %d columns: %s", n-1, line)
		}
	}
	back := &Report{}
	if err := json.Unmarshal(raw.Bytes(), back); err != nil || len(back.Incidents[0].Sides) != len(r.Incidents[0].Sides) {
		t.Errorf("JSON gives %+v, %v", back, err)
	}
	for _, want := range []string{"<svg", r.Incidents[0].Sides[0].Label, r.Incidents[0].Name} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, outside := range []string{"src=", "href=", "url("} {
		if strings.Contains(page.String(), outside) {
			t.Errorf("the page needs something from outside: %q", outside)
		}
	}
	checkXML(t, r.Incidents[0].Chart(r.Pods))
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

func TestNamed(t *testing.T) {
	all, err := Named()
	if err != nil || len(all) != len(Incidents()) {
		t.Errorf("no names: %d incidents, %v", len(all), err)
	}
	two, err := Named("relist", "first-list")
	if err != nil || len(two) != 2 || two[0].Name != "first-list" || two[1].Name != "relist" {
		t.Errorf("two names: %v, %v", two, err)
	}
	if _, err := Named("relist", "flood"); err == nil || !strings.Contains(err.Error(), `"flood"`) || !strings.Contains(err.Error(), "first-list, ") {
		t.Errorf("an unknown name: %v", err)
	}
}
