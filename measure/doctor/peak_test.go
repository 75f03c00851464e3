package doctor

import (
	"testing"
	"time"
)

// TestHeldAtPeaks: how much memory answers held at once does not depend on how long the log is.
func TestHeldAtPeaks(t *testing.T) {
	burst := someone("burst", "list", "pods")
	burst.at, burst.took = 10*time.Second, 500*time.Millisecond
	held := func(later time.Duration) float64 {
		w := newWorld(1)
		r := someone("other", "get", "pods")
		w.do(r)
		w.each(200, 0, burst, nil)
		r.at = later
		w.each(3, time.Second, r, nil) // a single event would be taken for one of a wrong clock
		for _, c := range examine(t, plainly(), w.log()).Clients {
			if c.User == burst.user {
				return c.HeldBytes
			}
		}
		return 0
	}
	alone, late := held(11*time.Second), held(71*time.Hour)
	if want := 100 * 0.5 * 1_000_000; alone != want || late != want {
		t.Errorf("%v bytes alone, %v in three days, want %v", alone, late, want)
	}
}

// TestPeak: what is under way in each second adds up, also out of order, and the most counts.
func TestPeak(t *testing.T) {
	const second = int64(1e6)
	for _, c := range []struct {
		what string
		add  func(p *peak)
		want uint32
	}{
		{"nothing", func(*peak) {}, 0},
		{"a part of a second", func(p *peak) { p.add(10*second+3e5, 10*second+7e5) }, 400},
		{"two seconds", func(p *peak) { p.add(10*second+8e5, 12*second) }, 1000},
		{"at once", func(p *peak) {
			p.add(10*second, 11*second)
			p.add(8*second, 11*second)
			p.add(9*second, 10*second)
		}, 2000},
		{"one after the other", func(p *peak) {
			for i := range int64(1000) {
				p.add(i*second, (i+1)*second)
			}
		}, 1000},
		{"far apart", func(p *peak) {
			p.add(5*second, 6*second)
			p.add((5+peakSeconds)*second, (6+peakSeconds)*second)
			p.add((5+50*peakSeconds)*second, (6+50*peakSeconds)*second)
		}, 1000},
		{"longer than what is kept", func(p *peak) {
			p.add(0, 300*second)
			p.add(0, 300*second)
		}, 2000},
		{"a log of an earlier time", func(p *peak) {
			p.add(5000*second, 5001*second)
			for range 3 {
				p.add(4000*second, 4001*second)
			}
		}, 3000},
	} {
		var p peak
		if c.add(&p); p.most != c.want {
			t.Errorf("%s: %d ms in a second, want %d", c.what, p.most, c.want)
		}
	}
}
