package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is the result of a subject (an informer under test) in all rounds.
type result struct {
	Way      string `json:"way"`
	Name     string `json:"name"`
	Of       string `json:"of"`
	Control  bool   `json:"control"`
	Problems int    `json:"problems"`
	// For each round, Current is the time in seconds from the last fault until the subject was
	// current: it had the objects of the server. The time is negative if the subject was not current
	// within a minute.
	Current []float64 `json:"current"`
	// HeldUp is the part of Current that the subject's servers caused, in seconds.
	HeldUp []float64 `json:"heldUp"`
	// Restored is like Current, but measured after the restore.
	Restored []float64 `json:"restored,omitempty"`
	// Versions is the number of distinct versions that the subject's handlers received during the
	// faults of each round.
	Versions []int `json:"versions"`
	// Replays is the number of updates whose old and new versions were equal.
	Replays int `json:"replays"`
	// Strays is the number of deletions of objects that a handler never received. Such a deletion is a
	// problem, except for client-go's informers behind the proxies: Strays counts only these.
	Strays  int   `json:"strays,omitempty"`
	Lists   int64 `json:"lists"`
	Probes  int64 `json:"probes"`
	Watches int64 `json:"watches"`

	// OfControl is the sum of Versions divided by the control's sum. Behind is how many seconds later
	// than the control the subject became current, in the worst round. The subject and the control may
	// have been connected to different servers. BehindOwn therefore subtracts the delay that the
	// subject's servers caused.
	OfControl float64 `json:"ofControl,omitempty"`
	Behind    float64 `json:"behind"`
	BehindOwn float64 `json:"behindOwn"`
}

// report is the result of a run of the test.
type report struct {
	Seed    uint64    `json:"seed"`
	Seconds float64   `json:"seconds"`
	Rounds  int       `json:"rounds"`
	Writes  uint64    `json:"writes"`
	Results []*result `json:"results"`
}

// compare compares each result with the control's result for the same way and objects.
func (r *report) compare() {
	for _, one := range r.Results {
		i := slices.IndexFunc(r.Results, func(o *result) bool {
			return o.Control && o.Way == one.Way && o.Of == one.Of && o.plain() == one.plain()
		})
		if one.Control || i < 0 {
			continue
		}
		control := r.Results[i]
		if of := sum(control.Versions); of > 0 {
			one.OfControl = float64(sum(one.Versions)) / float64(of)
		}
		for round, at := range one.Current {
			if round < len(control.Current) && at >= 0 && control.Current[round] >= 0 {
				one.Behind = max(one.Behind, at-control.Current[round])
				one.BehindOwn = max(one.BehindOwn, at-max(control.Current[round], one.HeldUp[round]))
			}
		}
	}
}

// plain returns false for a subject that uses controller-runtime's client. Such a subject is
// compared only with another one that uses this client.
func (r *result) plain() bool { return !strings.HasPrefix(r.Name, readYourWrites) }

func sum(list []int) (n int) {
	for _, i := range list {
		n += i
	}
	return n
}

// table returns the report as text.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %.0f s, %d rounds, %d writes\n", r.Seed, r.Seconds, r.Rounds, r.Writes)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "way\tinformer\tof\tproblems\tcurrent after (median, worst)\tbehind client-go, by itself\tafter restore\tversions\t÷ client-go\tlists\tprobes\twatches\treplays\tstrays")
	for _, o := range r.Results {
		median, worst := spread(o.Current)
		ratio, behind := "", ""
		_, restored := spread(o.Restored)
		if !o.Control {
			ratio, behind = fmt.Sprintf("%.2f", o.OfControl), fmt.Sprintf("%+.2f s, %+.2f s", o.Behind, o.BehindOwn)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s, %s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n", o.Way, o.Name, o.Of, o.Problems, median, worst, behind, restored, sum(o.Versions),
			ratio, o.Lists, o.Probes, o.Watches, o.Replays, o.Strays)
	}
	_ = t.Flush() // a write to memory does not fail
	return b.String()
}

// spread returns the median and the maximum of times. A negative time counts as infinite.
func spread(times []float64) (median, worst string) {
	sorted := slices.Clone(times)
	slices.SortFunc(sorted, func(a, b float64) int {
		switch {
		case a == b:
			return 0
		case a < 0 || b >= 0 && a > b:
			return 1
		}
		return -1
	})
	text := func(s float64) string {
		if s < 0 {
			return "never"
		}
		return fmt.Sprintf("%.2f s", s)
	}
	if len(sorted) == 0 {
		return "-", "-"
	}
	return text(sorted[(len(sorted)-1)/2]), text(sorted[len(sorted)-1])
}

func (r *report) write(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// summary describes the slowest subject and the slowest control, and lists the subjects that were
// not current in time.
func summary(subjects []*subject, took []time.Duration) string {
	var late []string
	var ours, control time.Duration
	for i, s := range subjects {
		switch {
		case took[i] == never:
			late = append(late, s.String())
		case s.control:
			control = max(control, took[i])
		default:
			ours = max(ours, took[i])
		}
	}
	text := fmt.Sprintf("current after %.2f s, client-go after %.2f s", ours.Seconds(), control.Seconds())
	if len(late) > 0 {
		text += "; never: " + strings.Join(late, ", ")
	}
	return text
}
