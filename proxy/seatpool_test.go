package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sit enters in a goroutine of its own; the channel tells whether there was a seat.
func sit(s *seatPool, ctx context.Context, f flow) <-chan bool {
	got := make(chan bool, 1)
	go func() { got <- s.acquire(ctx, f) }()
	synctest.Wait()
	return got
}

// has reports whether a request has a seat by now; it must not have been refused.
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

// TestSeatsFair: a flow gets half of the seats at most, and a free seat goes to the waiting flow
// with the fewest.
func TestSeatsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(8, time.Minute) // 8*20/100 is one for the system
		greedy, modest, third := flow{level: levelEveryone, caller: "greedy"}, flow{level: levelEveryone, caller: "modest"}, flow{level: levelEveryone, caller: "third"}
		for i := range 3 {
			if !s.acquire(t.Context(), greedy) {
				t.Fatalf("seat %d of 3", i)
			}
		}
		var waits []<-chan bool
		for range 2 {
			waits = append(waits, sit(s, t.Context(), greedy))
		}
		if has(t, waits[0]) {
			t.Fatal("a fourth of the seven common seats")
		}
		for range 3 {
			if !s.acquire(t.Context(), modest) {
				t.Fatal("no seat for another flow")
			}
		}
		if !s.acquire(t.Context(), third) {
			t.Fatal("the last seat")
		}
		// All are taken; modest waits behind greedy, and third behind both.
		m, th := sit(s, t.Context(), modest), sit(s, t.Context(), third)
		s.release(modest)
		if !has(t, th) || has(t, m) || has(t, waits[0]) {
			t.Error("the seat goes to the one that has fewest")
		}
		s.release(greedy)
		if !has(t, waits[0]) && !has(t, m) {
			t.Error("no flow has the seat")
		}
		if taken, waiting := s.counts(); taken != [priorityLevels]int{levelEveryone: 7} || waiting[levelEveryone] != 2 {
			t.Errorf("%v taken, %v waiting", taken, waiting)
		}
		// A request that gets no seat in time is refused.
		time.Sleep(time.Minute)
		synctest.Wait()
		if ok := <-waits[1]; ok {
			t.Error("a seat, although none was released")
		}
	})
}

// TestSeatsLevels: when other callers use all their seats, system callers and leases still have
// reserved seats. When these are used too, free seats go to leases first.
func TestSeatsLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(100, time.Minute)
		for i := range s.unreserved() + s.reserved[levelEveryone] {
			if !s.acquire(t.Context(), flow{level: levelEveryone, caller: fmt.Sprint(i)}) {
				t.Fatalf("common seat %d", i)
			}
		}
		one := sit(s, t.Context(), flow{level: levelEveryone, caller: "one"})
		if has(t, one) {
			t.Fatal("a reserved seat for a common caller")
		}
		for c, own := range s.reserved[:levelEveryone] {
			if own == 0 {
				t.Fatalf("%v have no seats of their own", priorityLevel(c))
			}
			for i := range own {
				if !s.acquire(t.Context(), flow{level: priorityLevel(c), caller: fmt.Sprint(i)}) {
					t.Fatalf("%v: own seat %d of %d", priorityLevel(c), i, own)
				}
			}
		}
		sys, lease := sit(s, t.Context(), flow{level: levelSystem, caller: "node"}), sit(s, t.Context(), flow{level: levelLeases, caller: "node"})
		s.release(flow{level: levelEveryone, caller: "3"})
		if has(t, sys) || !has(t, lease) || has(t, one) {
			t.Error("a lease comes first")
		}
		s.release(flow{level: levelSystem, caller: "0"})
		if !has(t, sys) || has(t, one) {
			t.Error("then the system")
		}
		s.release(flow{level: levelEveryone, caller: "4"})
		if !has(t, one) {
			t.Error("then everybody")
		}
	})
}

// TestSeatsOfSystemLeases: when others fill all seats that they may with leases, and so do the
// other requests of the system, a renewal of the system's has a seat, and is first for the next.
func TestSeatsOfSystemLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(defaultMutating, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, f := range []flow{{level: levelLeases, caller: "one"}, {level: levelLeases, caller: "other"}, {level: levelSystem, caller: "third"}, {level: levelSystem, caller: "fourth"}} {
			for range s.limit {
				sit(s, ctx, f)
			}
		}
		if has(t, sit(s, ctx, flow{level: levelLeases, caller: "modest"})) || has(t, sit(s, ctx, flow{level: levelSystem, caller: "modest"})) {
			t.Fatal("not all seats are taken")
		}
		for i := range s.reserved[levelSystemLeases] {
			if !has(t, sit(s, ctx, flow{level: levelSystemLeases, caller: fmt.Sprint(i)})) {
				t.Fatalf("no seat for renewal %d", i)
			}
		}
		next := sit(s, ctx, flow{level: levelSystemLeases, caller: "next"})
		s.release(flow{level: levelLeases, caller: "one"})
		if !has(t, next) {
			t.Error("another lease comes before it")
		}
	})
}

// TestSeatsForEveryone: anybody may have leases, so that those who ask for nothing else leave
// others some seats.
func TestSeatsForEveryone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(100, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		for _, f := range []flow{{level: levelLeases, caller: "one"}, {level: levelLeases, caller: "other"}, {level: levelSystem, caller: "third"}} {
			for range s.limit {
				sit(s, ctx, f)
			}
		}
		if !has(t, sit(s, t.Context(), flow{level: levelEveryone, caller: "modest"})) {
			t.Error("no seat for anybody else")
		}
		cancel()
	})
}

// TestSeatsBounds: lines are bounded for a flow and for a level; who has gone waits no longer and
// leaves nothing behind.
func TestSeatsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(2*minQueued, time.Hour)
		for i := range s.unreserved() + s.reserved[levelEveryone] {
			if !s.acquire(t.Context(), flow{level: levelEveryone, caller: fmt.Sprint(i)}) {
				t.Fatalf("seat %d", i)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waits []<-chan bool
		for _, name := range []string{"a", "b"} {
			for range minQueued {
				waits = append(waits, sit(s, ctx, flow{level: levelEveryone, caller: name}))
			}
			if s.acquire(ctx, flow{level: levelEveryone, caller: name}) {
				t.Fatal("a seat")
			}
		}
		if _, waiting := s.counts(); waiting[levelEveryone] != 2*minQueued {
			t.Fatalf("%v wait", waiting)
		}
		began := time.Now()
		if s.acquire(ctx, flow{level: levelEveryone, caller: "c"}) || time.Since(began) > 0 {
			t.Error("more wait than there are seats")
		}
		cancel()
		for _, got := range waits {
			if <-got {
				t.Error("a seat for a request that was canceled")
			}
		}
		for i := range s.unreserved() + s.reserved[levelEveryone] {
			s.release(flow{level: levelEveryone, caller: fmt.Sprint(i)})
		}
		if len(s.flows)+len(s.queued)+s.inUse() != 0 || slices.Max(s.waiting[:]) != 0 {
			t.Errorf("%d lines, %d hungry, %d seated, %v waiting", len(s.flows), len(s.queued), s.inUse(), s.waiting)
		}
	})
}

// TestSeatsOfAFlood: of one caller that floods the default seats as many requests wait as in
// kube-apiserver, whose flows have six queues of 50, and others find a seat.
func TestSeatsOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(defaultReadOnly, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		agents := flow{level: levelEveryone, caller: "agents"}
		var waits []<-chan bool
		for range 2000 {
			waits = append(waits, sit(s, ctx, agents))
		}
		seats := s.inUse()
		if _, waiting := s.counts(); waiting[levelEveryone] != 6*50 {
			t.Errorf("%v wait", waiting)
		}
		if !s.acquire(ctx, flow{level: levelEveryone, caller: "other"}) {
			t.Error("no seat for another caller")
		}
		s.release(flow{level: levelEveryone, caller: "other"})
		for range seats + 6*50 {
			s.release(agents)
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

// TestSeatsOfSeveralFloods: four callers that flood leave places to others that have to wait.
func TestSeatsOfSeveralFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(defaultReadOnly, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 4 {
			for range 1000 {
				sit(s, ctx, flow{level: levelEveryone, caller: fmt.Sprint(i)})
			}
		}
		if _, waiting := s.counts(); waiting[levelEveryone] != defaultReadOnly/2+2*minQueued {
			t.Errorf("%v wait", waiting)
		}
		modest := sit(s, ctx, flow{level: levelEveryone, caller: "modest"})
		for range 3 { // two of the others have none either, and came before
			s.release(flow{level: levelEveryone, caller: "0"})
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
	if p.max(at.Add(3*time.Second)) != 2 {
		t.Error("what comes on top counts")
	}
}

func TestLevelNames(t *testing.T) {
	var all []string
	for c := range priorityLevels {
		all = append(all, c.String())
	}
	if strings.Join(all, " ") != "system-leases leases system everybody new-tokens anonymous" {
		t.Error(all)
	}
}

// inUse returns how many requests have a seat.
func (s *seatPool) inUse() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taken := range s.taken {
		n += taken
	}
	return n
}
