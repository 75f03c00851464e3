package doctor

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// someone returns a request of a client that runs on one machine.
func someone(name, verb, resource string) request {
	return request{user: account(name), agent: program(name), ip: "10.9.0.1", verb: verb, resource: resource}
}

// each adds a request n times, at an interval. change modifies the i-th request.
func (w *world) each(n int, every time.Duration, r request, change func(i int, r *request)) {
	from := r.at
	for i := range n {
		one := r
		one.at = from + time.Duration(i)*every
		if change != nil {
			change(i, &one)
		}
		w.do(one)
	}
}

// TestCases checks clients as they exist in many clusters, from testdata/cases.txt. A line that
// starts with > has the kind of the expected finding and a part of its text. Without such a line,
// the test expects no finding.
func TestCases(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.txt")
	check.NoError(t, err)
	for one := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(one, "\n")
		t.Run(strings.TrimPrefix(lines[0], "# "), func(t *testing.T) {
			kind, part := "", ""
			lines = lines[1:]
			if want, found := strings.CutPrefix(lines[0], "> "); found {
				kind, part, _ = strings.Cut(want, ":")
				lines = lines[1:]
			}
			var got []string
			for _, f := range examine(t, plainly(), playing(t, lines...).log()).Findings {
				got = append(got, f.Kind+": "+f.Text)
			}
			if kind == "" && len(got) > 0 || kind != "" && (len(got) != 1 || !strings.HasPrefix(got[0], kind+": ") || !strings.Contains(got[0], strings.TrimSpace(part))) {
				t.Errorf("%q, want %s: %s", got, kind, part)
			}
		})
	}
}

// TestObjectsOfParts checks a finding about LISTs that each return only some objects. The finding
// must not count all objects of the resource for each LIST.
func TestObjectsOfParts(t *testing.T) {
	w := playing(t, "20 every 1s: resync list pods at=0s,12h,24h,36h,48h,60h ns=team-{i}")
	found := examine(t, Options{Objects: map[string]int64{"pods": 50_000}}, w.log()).Findings
	if len(found) != 1 || found[0].Kind != FindingResync || found[0].Objects != 0 {
		t.Errorf("%+v", found)
	}
}

// TestRhythmOfLogsInARow reads two logs of the same time, one after the other. It checks that the
// intervals of both logs count, and that the jump back in time does not count as an interval.
func TestRhythmOfLogsInARow(t *testing.T) {
	var r rhythm
	for range 2 {
		for i := range int64(60) {
			r.add(i*120e6, nil)
		}
	}
	if every, share := r.interval(); every != 2*time.Minute || share < 1 || r.bin[35].n != 118 || r.span() != 118*time.Minute {
		t.Errorf("every %v, %g, %v", every, share, r.span())
	}
}
