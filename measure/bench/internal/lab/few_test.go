package lab

import (
	"context"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// podsAsked notes how many pods a replay is asked for.
type podsAsked struct{ pods int }

func (p *podsAsked) run(_ context.Context, o Options, _ func(figures.Traced)) error {
	p.pods = o.Objects
	return nil
}

// TestFewPods: the agents and controllers are as many as in their stories unless a number of
// pods is asked for. Then there are as many pods as asked for.
func TestFewPods(t *testing.T) {
	story := map[string]string{"node-agents": "2,000 agents", "thundering-restart": "200 controllers"}
	for _, i := range Incidents() {
		for _, o := range []Options{{Few: true}, {}, {Few: true, Real: true}} {
			asked := &podsAsked{}
			i.replay, o.Options = asked, informers.Options{Objects: 10_000}
			out, err := i.run(t.Context(), o, nil)
			check.NoError(t, err)
			few := o.Few && !o.Real && story[i.Name] != ""
			if fewer := asked.pods < 10_000; fewer != few || asked.pods != out.Pods {
				t.Errorf("%s: asked for %d pods, %d reported", i.Name, asked.pods, out.Pods)
			}
			if few && !strings.Contains(out.title(), story[i.Name]) {
				t.Errorf("%s: %q", i.Name, out.title())
			}
		}
	}
}
