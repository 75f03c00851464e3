package cost

import (
	"math"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestLoad checks that the committed model is complete and says where it was measured. It checks
// that each prediction differs from the measurement of the same run by at most a factor of 1.5. If
// the measured CPU time is below LeastCPU, the prediction may be too low by a factor of 2.
func TestLoad(t *testing.T) {
	m := Load()
	if d := m.Measured; d.At.IsZero() || d.Server == "" || d.Command == "" || d.CPUs*int(d.Objects) == 0 {
		t.Errorf("measured where? %+v", d)
	}
	for name, k := range map[string]Coefficients{"server": m.Server, "proxy": m.Proxy} {
		if k.Request <= 0 || k.Looked <= 0 || k.Event <= 0 || k.Connection <= 0 {
			t.Errorf("%s: %+v", name, k)
		}
		for _, encoding := range Encodings() {
			if s := k.Encodings[encoding]; s.Seconds <= 0 || s.Bytes <= 0 {
				t.Errorf("%s: %s: %+v", name, encoding, s)
			}
		}
	}
	if m.Memory.Held <= 0 {
		t.Errorf("memory: %+v", m.Memory)
	}
	const offAtMost = 1.5
	incidents := map[string]bool{}
	for _, c := range m.Checks {
		cpu := c.Figure == CPUFigure || c.Figure == ProxyCPUFigure
		if cpu && c.Want < LeastCPU {
			if c.Got < c.Want/2 || c.Got > offAtMost*c.Want { // below LeastCPU
				t.Errorf("%s, %s: %s was %.2f, predicted %.2f", c.Incident, c.Way, c.Figure, c.Want, c.Got)
			}
			continue
		}
		if incidents[c.Incident] = true; c.Off() > offAtMost {
			t.Errorf("%s, %s: %s is off by %.2f", c.Incident, c.Way, c.Figure, c.Off())
		}
	}
	for _, name := range []string{"node-agents", "thundering-restart", "resync-storm"} {
		if !incidents[name] {
			t.Errorf("predictions were not compared with %s", name)
		}
	}
}

var coefficients = Coefficients{
	Connection: 1, Request: 10, Quorum: 100, Looked: 0.5, Event: 2,
	Encodings: map[Encoding]Sent{Protobuf: {0.01, 1}, JSONGzip: {0.03, 0.2}, Initial: {0.02, 1}},
}

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		work Work
		want Cost
	}{
		{"nothing", Work{}, Cost{}},
		{"small LISTs", Work{Requests: 3}, Cost{3, 0, 30}},
		{"some of them as new as the storage", Work{Requests: 3, Quorum: 2}, Cost{3, 0, 230}},
		{"on connections of their own", Work{Requests: 3, Connections: 3}, Cost{3, 0, 33}},
		{"by a selector", Work{Requests: 2, Looked: 1000, Sent: 100}, Cost{2, 200, 20 + 1000 + 2}},
		{"in JSON", Work{Requests: 2, Sent: 100, Encoding: JSONGzip}, Cost{2, 40, 20 + 6}},
		{"in pages", Work{Requests: 2, Sent: 100, PageCount: 4}, Cost{8, 200, 80 + 2}},
		{"events", Work{Requests: 1, Events: 5, EventBytes: 7, Encoding: Initial}, Cost{1, 35, 10 + 10}},
	} {
		got := coefficients.Of(tt.work)
		if got.Requests != tt.want.Requests || math.Abs(got.Bytes-tt.want.Bytes) > 1e-9 || math.Abs(got.CPUSeconds-tt.want.CPUSeconds) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestOff(t *testing.T) {
	for _, tt := range []struct{ want, got, off float64 }{
		{2, 2, 1}, {2, 3, 1.5}, {3, 2, 1.5}, {0, 0, 1}, {0, 1, math.Inf(1)}, {1, 0, math.Inf(1)},
	} {
		if off := (Check{Want: tt.want, Got: tt.got}).Off(); math.Abs(off-tt.off) > 1e-9 {
			t.Errorf("measured %v, predicted %v: off by %v, want %v", tt.want, tt.got, off, tt.off)
		}
	}
}

func TestSeats(t *testing.T) {
	for objects, want := range map[float64]float64{0: 1, 1: 1, 100: 1, 101: 2, 9_999: 100, 1e6: 100} {
		check.Equal(t, Seats(objects), want, "%v objects take seats", objects)
	}
	if LetIn(0) != 1 || LetIn(600) != 1 || LetIn(1200) != 0.5 {
		t.Errorf("let in: %v, %v, %v", LetIn(0), LetIn(600), LetIn(1200))
	}
}

func TestGrowth(t *testing.T) {
	m := Memory{Headroom: 0.5, Held: 0.25}
	check.Equal(t, m.Growth(100, 0), 0, "without a LIST")
	check.Equal(t, m.Growth(100, 40), 60)
}
