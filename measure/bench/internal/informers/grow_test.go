package informers

import (
	"io"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/process"
)

// TestGrower measures weir and client-go at a few small points, with all child processes.
func TestGrower(t *testing.T) {
	server, err := process.StartServer(t.Context(), process.ServerSpec{Pods: 30, Seed: 1})
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	g := NewGrower(Options{Config: server.Config(), Server: server.URL, Duration: 300 * time.Millisecond, Progress: io.Discard})
	t.Cleanup(func() { g.Close() })
	for _, p := range []Point{{Objects: 60}, {Objects: 60, Informers: 3}, {Objects: 60, Informers: 3, Handlers: 4}, {Objects: 90, Handlers: 4, DropIn: true}} {
		for _, side := range []string{sideWeir, sideClientgo} {
			f, err := g.Measure(t.Context(), side, p)
			check.NoError(t, err)
			want := float64(p.Objects * max(1, p.Informers))
			check.Equal(t, f["objects"], want, "%s of %+v holds objects", side, p)
			if most := f["mostLists"]; most < 1 || most > float64(max(1, p.Informers)) {
				t.Errorf("%s of %+v: %v concurrent LISTs", side, p, most)
			}
			for _, figure := range GrowthFigures {
				missing := false
				switch figure.Key {
				case "eventsPerSecond", "cpuMicrosPerEvent":
					missing = p.Informers > 1 && p.Handlers <= 1
				case "getPackedNanos", "delayP99Seconds":
					missing = p.Informers > 1
				}
				if v, ok := f[figure.Key]; ok == missing || ok && v <= 0 {
					t.Errorf("%s of %+v: %s is %v, %v", side, p, figure.Key, v, ok)
				}
			}
		}
	}
}
