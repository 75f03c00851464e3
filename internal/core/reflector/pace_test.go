package reflector

import (
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestPaceOfLargeLists counts the lists of a large resource in a quarter of an hour, while each
// watch fails in a way that makes a list necessary. They come no faster than half of the longest
// wait, but for the first few.
func TestPaceOfLargeLists(t *testing.T) {
	const lasted = 15 * time.Minute
	failed := func(what string) []input {
		return []input{{typ: inFailed, err: classify(Watching, failure(what)), after: time.Second}}
	}
	for name, watch := range map[string][]input{
		"expired":     failed("http-410"),
		"forbidden":   failed("http-403"),
		"not found":   failed("http-404"),
		"not allowed": failed("http-405"),
		"rejected":    failed("http-422"),
		"unreadable":  {{typ: inOpened}, {typ: inEvents, rv: "1001", damaged: 1, after: time.Second}},
	} {
		for _, mode := range []Mode{List, Pages, WatchList} {
			t.Run(mode.String()+"/"+name, func(t *testing.T) {
				cfg := Config{Mode: mode}.withDefaults()
				lists := countLists(t, newState(&cfg, ""), watch, lasted)
				if most := int(lasted/(cfg.Backoff.Max/2)) + 25; lists > most || lists <= 15 {
					t.Errorf("%d lists, want 16 to %d", lists, most)
				}
			})
		}
	}
}

// neverWatched reports whether a server that refuses a WATCH so refuses one with initial events.
func neverWatched(err *Error) bool {
	return err.Sentinel == ErrUnknownResource || err.Sentinel == ErrForbidden
}

// countLists runs the reflector for so long. Each watch is answered so, and each list brings much.
func countLists(t *testing.T, s state, watch []input, lasted time.Duration) (lists int) {
	t.Helper()
	return countListsOf(t, s, watch, lasted, 100_000)
}

// countListsOf is countLists with lists of a size. One of more than one object takes a second.
func countListsOf(t *testing.T, s state, watch []input, lasted time.Duration, size int64) (lists int) {
	t.Helper()
	took := min(time.Duration(size-1)*time.Second, time.Second)
	listed := []input{{typ: inOpened, rv: "1000"}, {typ: inPage, rv: "1000", size: size, after: took}}
	inputs := []input{{typ: inBegin}}
	for passed := time.Duration(0); passed < lasted; {
		in := inputs[0]
		inputs, in.jitter = inputs[1:], 0.5
		passed += in.after
		before := s
		var actions []action
		s, actions = step(s, in)
		check.NoError(t, checkStep(before, s, in, actions))
		for _, act := range actions {
			switch act := act.(type) {
			case wait:
				passed += act.d
				inputs = []input{{typ: inWoke}}
			case openList:
				lists++
				inputs = listed
			case askNewest:
				inputs = []input{{typ: inNewest, rv: "1000"}}
			case openWatch:
				inputs = watch
				if refused := len(watch) == 1; act.SendInitialEvents && !(refused && neverWatched(watch[0].err)) {
					lists++
					inputs = []input{{typ: inOpened}, {typ: inBookmark, rv: "1000", final: true, size: size, after: took}}
					inputs = append(inputs, watch[len(watch)-1])
				}
			}
		}
	}
	return lists
}

// TestPaceOfRefusedVerb counts the lists of a small resource whose WATCHes are refused because the
// server does not allow the verb, next to the 6 in the first minute and 80 in an hour that
// client-go's backoff leads to. A 404 may be over soon, but not after eight of them between lists
// that are answered.
func TestPaceOfRefusedVerb(t *testing.T) {
	for what, most := range map[string][2]int{"http-405": {6, 90}, "http-404": {6 + maxRefused, 90 + maxRefused}} {
		watch := []input{{typ: inFailed, err: classify(Watching, failure(what))}}
		for i, lasted := range []time.Duration{time.Minute, time.Hour} {
			cfg := Config{Mode: List}.withDefaults()
			if lists := countListsOf(t, newState(&cfg, ""), watch, lasted, 1); lists > most[i] {
				t.Errorf("%s: %d lists in %v, want no more than %d", what, lists, lasted, most[i])
			}
		}
	}
}
