package lab

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/informers"
)

// Run replays incidents, and writes a line to the options' Progress for each side. Of the options,
// it takes those that say where the server is, and Objects.
func Run(ctx context.Context, incidents []Incident, o informers.Options) (*Report, error) {
	report := &Report{Pods: o.Objects, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second)}
	for n, i := range incidents {
		replayed, err := i.run(ctx, o, func(side string, f figures.Values) {
			fmt.Fprintf(o.Progress, "%d/%d %-13s %-20s %s\n", n+1, len(incidents), i.Name, side, figures.Headline(f, i.figures))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		report.Incidents = append(report.Incidents, replayed)
	}
	return report, nil
}

func (i Incident) run(ctx context.Context, o informers.Options, done func(side string, f figures.Values)) (Replayed, error) {
	if i.prepare != nil {
		i.prepare(&o)
	}
	out := Replayed{Incident: i, Name: i.Name}
	err := i.replay.Run(ctx, o, func(r informers.Replayed) {
		out.Sides = append(out.Sides, Side{r.Label, r.Figures, r.Trace})
		done(r.Label, r.Figures)
	})
	return out, err
}
