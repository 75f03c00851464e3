package lab

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// Options say where incidents are replayed, and with how many pods.
type Options struct {
	// Options say where the server is that informers are replayed on, in Config and Server or Args,
	// and with Objects how many pods it has. Progress gets a line for each side. The rest is each
	// incident's own.
	informers.Options
	// Few lets incidents of many clients take fewer pods than Objects, so that those are as many as
	// in the incident. It has no effect with Real.
	Few bool
	// Proxy is the program weir-proxy, for incidents of servers.
	Proxy string
	// Real: Config leads to a kube-apiserver, which incidents of servers are replayed on too, and
	// whose pods they may change. false: those start an embedded server for each side.
	Real bool
}

// Run replays incidents.
func Run(ctx context.Context, incidents []Incident, o Options) (*Report, error) {
	report := &Report{Pods: o.Objects, Real: o.Real, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second)}
	for n, i := range incidents {
		replayed, err := i.run(ctx, o, func(side string, f figures.Values) {
			fmt.Fprintf(o.Progress, "%*d/%d %-18s %-20s %s\n", len(fmt.Sprint(len(incidents))), n+1, len(incidents), i.Name, side, figures.Headline(f, i.figures))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Name, err)
		}
		report.Incidents = append(report.Incidents, replayed)
	}
	return report, nil
}

func (i Incident) run(ctx context.Context, o Options, done func(side string, f figures.Values)) (Replayed, error) {
	out := Replayed{Incident: i, Name: i.Name, Pods: o.Objects}
	if o.Few && !o.Real && i.pods > 0 {
		out.Pods = min(out.Pods, i.pods)
	}
	o.Objects = out.Pods
	err := i.replay.run(ctx, o, func(s figures.Traced) {
		out.Sides = append(out.Sides, s)
		done(s.Label, s.Figures)
	})
	return out, err
}
