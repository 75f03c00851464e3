package seats

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// flood sends requests of the given flows until they have all the seats and places that they may
// have.
func flood(s *Pool, ctx context.Context, flows func(i int) Flow) {
	for i := range 2 * (int(s.budget.Limit()) + s.places) {
		sit(s, ctx, flows(i))
	}
}

// TestSeatsOfASource checks that a token gets a free seat although another token of the same source
// waits. The other token already uses all the seats that it may use.
func TestSeatsOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(100, 100, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		of := func(token string) Flow { return Flow{Level: NewTokens, Caller: "10.0.1.1", Token: token} }
		flood(s, ctx, func(int) Flow { return of("a") })
		if _, waiting := s.Counts(); waiting[NewTokens] == 0 {
			t.Fatal("none waits")
		}
		if !has(t, sit(s, ctx, of("b"))) {
			t.Error("another token of the source waits for a seat that is free")
		}
		cancel()
		synctest.Wait()
	})
}

// TestSeatsOfSources checks that sources with made-up tokens, and callers without a credential,
// leave seats to a token of another source. When all seats are taken, that token gets a place in
// the queue and the next free seat.
func TestSeatsOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(100, 100, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		flood(s, ctx, func(i int) Flow { return Flow{Level: Anonymous, Caller: fmt.Sprint("10.0.0.", i%5)} })
		if taken, waiting := s.Counts(); taken[Anonymous] > 5 || waiting[Anonymous] > 5 {
			t.Errorf("without a credential: %v taken, %v waiting", taken, waiting)
		}
		attack := func(n int) {
			flood(s, ctx, func(i int) Flow {
				return Flow{Level: NewTokens, Caller: fmt.Sprint("10.0.1.", n), Token: fmt.Sprint("made-up ", i)}
			})
		}
		for n := range 4 {
			attack(n)
			if !has(t, sit(s, t.Context(), Flow{Level: NewTokens, Caller: fmt.Sprint("10.0.2.", n), Token: "jane"})) {
				t.Errorf("%d sources leave no seat", n+1)
			}
		}
		for n := range 4 {
			attack(n)
		}
		modest := sit(s, t.Context(), Flow{Level: NewTokens, Caller: "10.0.3.1", Token: "jane"})
		s.Release(Flow{Level: NewTokens, Caller: "10.0.2.0", Token: "jane"})
		if !has(t, modest) {
			t.Error("the next seat goes to another source")
		}
		if !has(t, sit(s, t.Context(), Flow{Level: Everyone, Caller: "user john"})) {
			t.Error("no seat for a known caller")
		}
		cancel()
		synctest.Wait()
		if _, waiting := s.Counts(); waiting != [Levels]int{} {
			t.Errorf("%v wait", waiting)
		}
	})
}

// TestPlacesOfTokens fills the queue. It checks that a request of a token without waiting requests
// then replaces a waiting request of a token that has several.
func TestPlacesOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(1, 10, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		greedy := Flow{Level: NewTokens, Caller: "a", Token: "greedy"}
		flood(s, ctx, func(int) Flow { return greedy })
		modest := sit(s, t.Context(), Flow{Level: NewTokens, Caller: "a", Token: "modest"})
		other := sit(s, t.Context(), Flow{Level: NewTokens, Caller: "b", Token: "other"})
		if _, waiting := s.Counts(); waiting[NewTokens] != 10 {
			t.Errorf("%v wait", waiting)
		}
		s.Release(greedy)
		if !has(t, other) {
			t.Error("another source waits")
		}
		s.Release(Flow{Level: NewTokens, Caller: "b", Token: "other"})
		s.Release(greedy)
		if !has(t, modest) {
			t.Error("another token waits")
		}
		cancel()
	})
}

// TestTurnsOfSources checks that a free seat goes to the source with the fewest seats. If several
// sources have equally few, the seat goes to the one that was served longest ago, however many
// tokens of another source wait. Within one source, tokens take turns.
func TestTurnsOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewPool(2, 100, time.Minute)
		at := func(source, token string) Flow { return Flow{Level: NewTokens, Caller: source, Token: token} }
		for _, source := range []string{"a", "b"} {
			take(t, s, at(source, "first"))
		}
		var greedy []<-chan bool
		for range 10 {
			greedy = append(greedy, sit(s, t.Context(), at("a", "greedy")))
		}
		modest := sit(s, t.Context(), at("a", "modest"))
		other := sit(s, t.Context(), at("c", "other"))
		s.Release(at("a", "first"))
		if !has(t, other) || has(t, greedy[0]) {
			t.Error("the seat goes to the source that has none")
		}
		s.Release(at("c", "other"))
		if !has(t, greedy[0]) {
			t.Error("then to the first token")
		}
		again := sit(s, t.Context(), at("c", "other"))
		s.Release(at("a", "greedy"))
		if !has(t, again) || has(t, modest) {
			t.Error("then to the source that was served longest ago")
		}
		s.Release(at("c", "other"))
		if !has(t, modest) || has(t, greedy[1]) {
			t.Error("then to the next token of the other")
		}
		for range 9 {
			s.Release(at("a", map[bool]string{true: "modest", false: "greedy"}[s.flows[at("a", "modest")] != nil]))
			synctest.Wait()
		}
		s.Release(at("a", "greedy"))
		s.Release(at("b", "first"))
		if len(s.flows)+len(s.queued)+inUse(s) != 0 {
			t.Errorf("%d flows are left, %d wait, %d seats", len(s.flows), len(s.queued), inUse(s))
		}
	})
}
