package informers

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

func TestCompareUsesBetterMode(t *testing.T) {
	r := Result{
		Weir: Figures{"cost": 1, "speed": 50, "objects": 7, "never": 0, "ours": 3},
		Modes: map[string]Figures{
			modeList:      {"cost": 4, "speed": 10, "objects": 7, "never": 0},
			modeWatchList: {"cost": 5, "speed": 20, "objects": 7, "never": 0},
		},
	}
	r.Spread.Modes = map[string]figures.Spread{modeList: {"cost": {3, 6}}, modeWatchList: {"speed": {10, 40}, "cost": {5, 7}}}
	r.compare([]figures.Figure{
		figures.Lower("cost", "", figures.Number),
		figures.Higher("speed", "", figures.Number),
		figures.New("objects", "", figures.Count),
		figures.Lower("never", "", figures.Count),
		figures.Lower("ours", "", figures.Number),
	})
	if diff := cmp.Diff(Figures{"cost": 4, "speed": 20, "objects": 7, "never": 0}, r.ClientGo); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(figures.Spread{"cost": {3, 6}, "speed": {10, 40}}, r.Spread.ClientGo); diff != "" {
		t.Error(diff)
	}
	// There is no ratio if the figure is not compared, the divisor is 0, or weir or client-go lacks
	// the figure.
	if diff := cmp.Diff(Figures{"cost": 0.25, "speed": 2.5}, r.Ratio); diff != "" {
		t.Error(diff)
	}
}

// example returns a result of a verb that contains all figures.
func example(t *testing.T, name string) Result {
	t.Helper()
	v, ok := verbNamed(strings.TrimSuffix(name, dropInSuffix))
	if !ok {
		t.Fatalf("no verb %q", name)
	}
	if v.Name != name {
		v = v.DropIn()
	}
	runs := map[contender][]Figures{}
	for run := range v.Runs {
		for _, c := range contendersOf(v, run) {
			runs[c] = append(runs[c], exampleRun(v, c, run))
		}
	}
	r := newResult(name, v, runs)
	if v.takes(TakesChange) {
		r.Flags = spec{Options: Options{Handlers: 4, Changes: Changes()}}.flags()
	}
	return r
}

// exampleRun returns invented figures of one run. Figures that are not compared are equal in all
// runs.
func exampleRun(v Verb, c contender, run int) Figures {
	if c.side == sideFloor {
		return Figures{"syncSeconds": 1.2 + float64(run)/10}
	}
	f := Figures{}
	for i, fig := range v.all() {
		value := map[figures.Unit]float64{figures.Number: 1.04, figures.Count: 5000, figures.Seconds: 1.618, figures.Nanos: 412, figures.Micros: 5.2, figures.Bytes: 55.3e6}[fig.Unit]
		value += value * float64(i) / 7
		if fig.Better != figures.Neither {
			value += value * float64(run) / 20
		}
		if c.side == sideClientgo {
			value *= float64(12 + len(c.mode)%4)
		}
		f[fig.Key] = value
	}
	return f
}

// resultNames returns the names of the tested results: one for each verb, and one with --dropin if
// its figures or footnotes differ from the verb's.
func resultNames() (names []string) {
	for _, v := range Verbs() {
		names = append(names, v.Name)
	}
	return append(names, "sync"+dropInSuffix, "read"+dropInSuffix)
}

func TestTables(t *testing.T) {
	for _, name := range resultNames() {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			check.NoError(t, example(t, name).WriteTable(&b))
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			golden.Check(t, name+".table", b.String())
		})
	}
}

// TestJSON checks that the names in the JSON, which other programs read, do not change.
func TestJSON(t *testing.T) {
	var all []Result
	for _, name := range resultNames() {
		all = append(all, example(t, name))
	}
	text, err := json.MarshalIndent(all, "", "  ")
	check.NoError(t, err)
	golden.Check(t, "results.json", string(text)+"\n")
}
