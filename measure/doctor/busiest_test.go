package doctor

import (
	"testing"
	"time"
)

// TestBusiest: who had seats for longest comes first, with how many of its LISTs were under way; no
// more are named than a chart can show.
func TestBusiest(t *testing.T) {
	w := newWorld(1)
	first := someone("first", "get", "pods")
	first.took = time.Millisecond // where time begins
	w.do(first)
	for i, took := range []time.Duration{2, 3, 4, 5, 6, 7} {
		r := someone(string(rune('a'+i)), "list", "pods")
		r.took = took * time.Second
		w.each(3, 0, r, nil) // three at once
	}
	busiest := examine(t, Options{}, w.log()).Rate.Busiest
	if len(busiest) != maxBusy {
		t.Fatalf("%d clients", len(busiest))
	}
	for i, b := range busiest {
		sum := 0.0
		for _, n := range b.UnderWay {
			sum += n
		}
		if want := float64(3 * (7 - i)); b.User != account(string(rune('f'-i))) || sum < want-0.1 || sum > want+0.1 {
			t.Errorf("%s had %v, want %v", b.User, sum, want)
		}
	}
}
