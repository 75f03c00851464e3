package servers

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

func TestCompare(t *testing.T) {
	figures := []figures.Figure{
		figures.New("good", "", figures.Number).RatioAtMost(0.5),
		figures.New("bad", "", figures.Number).RatioAtMost(0.5),
		figures.New("alone", "", figures.Number).RatioAtMost(0.5),
		figures.New("zero", "", figures.Number).RatioAtMost(0.5),
		figures.New("few", "", figures.Count).AtMost(3),
		figures.New("many", "", figures.Count).AtMost(3),
		figures.New("absent", "", figures.Count).AtMost(3),
		figures.New("free", "", figures.Number),
	}
	r := Result{
		Weir:      Figures{"good": 1, "bad": 3, "alone": 1, "zero": 1, "few": 3, "many": 4, "free": 100},
		APIServer: Figures{"good": 2, "bad": 4, "zero": 0, "few": 0, "absent": 5, "free": 1},
	}
	r.compare(figures)
	// There is no ratio if weir or kube-apiserver lacks the figure, or if the divisor is 0.
	if diff := cmp.Diff(Figures{"good": 0.5, "bad": 0.75, "free": 100}, r.Ratio); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"bad", "many"}, r.Missed); diff != "" {
		t.Error(diff)
	}
	if _, bounded := r.Wanted["free"]; bounded || len(r.Wanted) != len(figures)-1 {
		t.Errorf("wanted: %v", r.Wanted)
	}
	for i, want := range []verdict{reached, missed, unknown, unknown, reached, missed, unknown, unknown} {
		if got := r.verdict(figures[i]); got != want {
			t.Errorf("%s: %q, want %q", figures[i].Key, got, want)
		}
	}
}

// example returns a result that contains all figures of a scenario.
func example(s Scenario) Result {
	r := Result{Name: s.Name, Runs: s.Runs, Weir: Figures{}, APIServer: Figures{}}
	for i, f := range s.figures {
		value := map[figures.Unit]float64{figures.Number: 1.04, figures.Count: 50_000, figures.Seconds: 0.618, figures.Bytes: 55.3e6}[f.Unit]
		r.Weir[f.Key] = value * float64(i)
		r.APIServer[f.Key] = value * 24
	}
	r.compare(s.figures)
	return r
}

func TestTable(t *testing.T) {
	var b strings.Builder
	check.NoError(t, WriteHead(&b))
	for _, s := range Scenarios() {
		for _, f := range s.figures {
			if n := utf8.RuneCountInString(f.Label); n > columns[0].Width {
				t.Errorf("%s %s: %d runes in %q, and there is place for %d", s.Name, f.Key, n, f.Label, columns[0].Width)
			}
		}
		check.NoError(t, example(s).WriteRows(&b))
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden.Check(t, "table", b.String())
}

func TestTableWithoutAnAPIServer(t *testing.T) {
	r := example(label)
	r.APIServer = Figures{}
	r.compare(label.figures)
	var b strings.Builder
	check.NoError(t, r.WriteRows(&b))
	golden.Check(t, "alone.table", b.String())
}

// TestJSON checks that the names in the JSON, which other programs read, do not change.
func TestJSON(t *testing.T) {
	var all []Result
	for _, s := range Scenarios() {
		all = append(all, example(s))
	}
	text, err := json.MarshalIndent(all, "", "  ")
	check.NoError(t, err)
	golden.Check(t, "results.json", string(text)+"\n")
}

func TestNamed(t *testing.T) {
	some, err := Named("list", "hold")
	if err != nil || len(some) != 2 || some[0].Name != "hold" || some[1].Name != "list" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := Named("hold", "nothing"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("got %v", err)
	}
	all, err := Named()
	if err != nil || len(all) != len(Scenarios())-1 || slices.ContainsFunc(all, func(s Scenario) bool { return s.Heavy }) {
		t.Errorf("%v, %v", all, err)
	}
}
