package seats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// sit calls Acquire in a separate goroutine. It sends the result to the channel that it returns.
func sit(s *Pool, ctx context.Context, f Flow) <-chan bool {
	got := make(chan bool, 1)
	go func() { got <- s.Acquire(ctx, f) }()
	synctest.Wait()
	return got
}

// take takes a seat, and fails the test if none is free.
func take(t *testing.T, s *Pool, f Flow) {
	t.Helper()
	if !s.Acquire(t.Context(), f) {
		t.Fatalf("no seat for %+v", f)
	}
}

// has reports whether the request has a seat by now. It fails the test if the request was refused.
func has(t *testing.T, got <-chan bool) bool {
	t.Helper()
	synctest.Wait()
	select {
	case ok := <-got:
		if !ok {
			t.Error("refused")
		}
		return ok
	default:
		return false
	}
}

// TestSeatsFair checks that a flow gets at most half of the seats, and that a free seat goes to the
// waiting flow with the fewest seats.
func TestSeatsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(8, 8, time.Minute) // one seat (8*15/100) is for the system
		greedy, modest, third := Flow{Level: Everyone, Caller: "greedy"}, Flow{Level: Everyone, Caller: "modest"}, Flow{Level: Everyone, Caller: "third"}
		for range 3 {
			take(t, s, greedy)
		}
		var waits []<-chan bool
		for range 2 {
			waits = append(waits, sit(s, t.Context(), greedy))
		}
		if has(t, waits[0]) {
			t.Fatal("a fourth of the seven common seats")
		}
		for range 3 {
			take(t, s, modest)
		}
		take(t, s, third)
		// All seats are taken. modest waits behind greedy, and third waits behind both.
		m, th := sit(s, t.Context(), modest), sit(s, t.Context(), third)
		s.Release(modest)
		if !has(t, th) || has(t, m) || has(t, waits[0]) {
			t.Error("the seat goes to the one that has fewest")
		}
		s.Release(greedy)
		if !has(t, waits[0]) && !has(t, m) {
			t.Error("no flow has the seat")
		}
		if taken, waiting := s.Counts(); taken != [Levels]int{Everyone: 7} || waiting[Everyone] != 2 {
			t.Errorf("%v taken, %v waiting", taken, waiting)
		}
		// A request that gets no seat within maxWait is refused.
		time.Sleep(time.Minute)
		synctest.Wait()
		if ok := <-waits[1]; ok {
			t.Error("a seat, although none was released")
		}
	})
}

// TestSeatsLevels checks that system callers and leases still have reserved seats when other
// callers use all their seats. When the reserved seats are in use too, free seats go to leases
// first.
func TestSeatsLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(100, 100, time.Minute)
		room := s.Room(Everyone)
		for i := range room {
			take(t, s, Flow{Level: Everyone, Caller: fmt.Sprint(i)})
		}
		one := sit(s, t.Context(), Flow{Level: Everyone, Caller: "one"})
		if has(t, one) {
			t.Fatal("a reserved seat for a common caller")
		}
		for c := range Everyone {
			if s.Room(c) == 0 {
				t.Fatalf("%v have no seats of their own", c)
			}
			for i := range s.Room(c) {
				take(t, s, Flow{Level: c, Caller: fmt.Sprint(i)})
			}
		}
		sys, lease := sit(s, t.Context(), Flow{Level: System, Caller: "node"}), sit(s, t.Context(), Flow{Level: Leases, Caller: "node"})
		s.Release(Flow{Level: Everyone, Caller: "3"})
		if has(t, sys) || !has(t, lease) || has(t, one) {
			t.Error("a lease comes first")
		}
		s.Release(Flow{Level: System, Caller: "0"})
		if !has(t, sys) || has(t, one) {
			t.Error("then the system")
		}
		s.Release(Flow{Level: Everyone, Caller: "4"})
		if !has(t, one) {
			t.Error("then everybody")
		}
	})
}

// TestSeatsOfSystemLeases fills two groups of seats: other callers take all seats that they may use
// for leases, and system callers take all seats for their other requests. It checks that the
// renewal of a system lease still gets a seat, and that the next free seat goes to such a renewal.
func TestSeatsOfSystemLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(200, 200, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, f := range []Flow{{Level: Leases, Caller: "one"}, {Level: Leases, Caller: "other"}, {Level: System, Caller: "third"}, {Level: System, Caller: "fourth"}} {
			for range int(s.budget.Limit()) {
				sit(s, ctx, f)
			}
		}
		if has(t, sit(s, ctx, Flow{Level: Leases, Caller: "modest"})) || has(t, sit(s, ctx, Flow{Level: System, Caller: "modest"})) {
			t.Fatal("not all seats are taken")
		}
		for i := range rules[SystemLeases].reserved * 200 / 100 {
			if !has(t, sit(s, ctx, Flow{Level: SystemLeases, Caller: fmt.Sprint(i)})) {
				t.Fatalf("no seat for renewal %d", i)
			}
		}
		next := sit(s, ctx, Flow{Level: SystemLeases, Caller: "next"})
		s.Release(Flow{Level: Leases, Caller: "one"})
		if !has(t, next) {
			t.Error("another lease comes before it")
		}
	})
}

// TestSeatsForEveryone checks that callers that request only leases leave some seats to other
// callers, because any caller may request leases.
func TestSeatsForEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(100, 100, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		for _, f := range []Flow{{Level: Leases, Caller: "one"}, {Level: Leases, Caller: "other"}, {Level: System, Caller: "third"}} {
			for range int(s.budget.Limit()) {
				sit(s, ctx, f)
			}
		}
		if !has(t, sit(s, t.Context(), Flow{Level: Everyone, Caller: "modest"})) {
			t.Error("no seat for anybody else")
		}
		cancel()
	})
}

// TestSeatsBounds checks that the queues of a flow and of a level are bounded, and that a canceled
// request leaves its queue and leaves no state behind.
func TestSeatsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(2*minQueued, 2*minQueued, time.Hour)
		room := s.Room(Everyone)
		for i := range room {
			take(t, s, Flow{Level: Everyone, Caller: fmt.Sprint(i)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waits []<-chan bool
		for _, name := range []string{"a", "b"} {
			for range minQueued {
				waits = append(waits, sit(s, ctx, Flow{Level: Everyone, Caller: name}))
			}
			if s.Acquire(ctx, Flow{Level: Everyone, Caller: name}) {
				t.Fatal("a seat")
			}
		}
		if _, waiting := s.Counts(); waiting[Everyone] != 2*minQueued {
			t.Fatalf("%v wait", waiting)
		}
		began := time.Now()
		if s.Acquire(ctx, Flow{Level: Everyone, Caller: "c"}) || time.Since(began) > 0 {
			t.Error("more wait than there are seats")
		}
		cancel()
		for _, got := range waits {
			if <-got {
				t.Error("a seat for a request that was canceled")
			}
		}
		for i := range room {
			s.Release(Flow{Level: Everyone, Caller: fmt.Sprint(i)})
		}
		if len(s.flows)+len(s.callers)+len(s.queued)+inUse(s) != 0 || slices.Max(s.waiting[:]) != 0 {
			t.Errorf("%d lines, %d hungry, %d seated, %v waiting", len(s.flows), len(s.queued), inUse(s), s.waiting)
		}
	})
}

// TestSeatsOfAFlood floods a Pool of the default size from one caller. It checks that 300 of the
// caller's requests wait, as in kube-apiserver, whose flows have six queues of 50. Another caller
// must get a seat.
func TestSeatsOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(1000, 1000, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		agents := Flow{Level: Everyone, Caller: "agents"}
		var waits []<-chan bool
		for range 2000 {
			waits = append(waits, sit(s, ctx, agents))
		}
		seats := inUse(s)
		if _, waiting := s.Counts(); waiting[Everyone] != 6*50 {
			t.Errorf("%v wait", waiting)
		}
		if !s.Acquire(ctx, Flow{Level: Everyone, Caller: "other"}) {
			t.Error("no seat for another caller")
		}
		s.Release(Flow{Level: Everyone, Caller: "other"})
		for range seats + 6*50 {
			s.Release(agents)
			synctest.Wait()
		}
		cancel()
		served := 0
		for _, got := range waits {
			if <-got {
				served++
			}
		}
		if served != seats+6*50 {
			t.Errorf("%d were served, %d had a seat at once", served, seats)
		}
	})
}

// TestSeatsOfSeveralFloods checks that four callers that flood the Pool leave places in the queue
// to a caller that has to wait.
func TestSeatsOfSeveralFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(1000, 1000, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 4 {
			for range 1000 {
				sit(s, ctx, Flow{Level: Everyone, Caller: fmt.Sprint(i)})
			}
		}
		if _, waiting := s.Counts(); waiting[Everyone] != 1000/2+2*minQueued {
			t.Errorf("%v wait", waiting)
		}
		modest := sit(s, ctx, Flow{Level: Everyone, Caller: "modest"})
		// two of the flooding callers have no seat either, and their requests came before modest's
		for range 3 {
			s.Release(Flow{Level: Everyone, Caller: "0"})
		}
		if !has(t, modest) {
			t.Error("no place for another caller")
		}
	})
}

func TestPeakGauge(t *testing.T) {
	var p peakGauge
	at := time.Unix(1000, 0)
	p.add(at, 1)
	p.add(at, 1)
	p.add(at, -1)
	if p.max(at) != 2 || p.max(at.Add(time.Second)) != 2 || p.max(at.Add(2*time.Second)) != 1 {
		t.Error("the peak is of the last second")
	}
	p.add(at.Add(3*time.Second), 1)
	check.Equal(t, p.max(at.Add(3*time.Second)), 2, "what comes on top counts")
}

func TestLevelNames(t *testing.T) {
	var all []string
	for c := range Levels {
		all = append(all, c.String())
	}
	if strings.Join(all, " ") != "system-leases leases system everybody new-tokens anonymous" {
		t.Error(all)
	}
}

// inUse returns how many requests have a seat.
func inUse(s *Pool) (n int) {
	taken, _ := s.Counts()
	for _, of := range taken {
		n += of
	}
	return n
}
