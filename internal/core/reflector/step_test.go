package reflector

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestConfigOf checks that ConfigOf copies fields to the Config and to its Query, and that each
// request has the parameters of Query.
func TestConfigOf(t *testing.T) {
	type mode Mode
	cfg := ConfigOf(struct {
		Mode          mode
		ShardSelector string
	}{mode(Pages), "a shard"})
	check.Equal(t, cfg.Mode, Pages)
	check.Equal(t, cfg.Query, metav1.ListOptions{ShardSelector: "a shard"})
	for _, o := range []metav1.ListOptions{openList{}.options(cfg.Query), askNewest{}.options(cfg.Query), openWatch{}.options(cfg.Query)} {
		check.Equal(t, o.ShardSelector, "a shard")
	}
}

// TestQuietResource checks how often the reflector lists a resource that does not change. If no
// bookmark was ever received, lists become rare. After one bookmark, their rate remains the same.
func TestQuietResource(t *testing.T) {
	for _, c := range []struct {
		bookmark    bool // the first watch sends a bookmark
		least, most int
	}{{false, 8, 25}, {true, 250, 350}} {
		cfg := Config{Mode: List}.withDefaults()
		s, lists, version := newState(&cfg, ""), 0, 1000
		inputs := []input{{typ: inBegin}}
		for day := time.Duration(0); day < 24*time.Hour; {
			in := inputs[0]
			inputs, in.jitter = inputs[1:], 0.5
			day += in.after
			var actions []action
			s, actions = step(s, in)
			for _, a := range actions {
				version++
				now := strconv.Itoa(version)
				switch a := a.(type) {
				case wait:
					inputs = append(inputs, input{typ: inWoke, after: a.d})
				case openList:
					lists++
					inputs = append(inputs, input{typ: inOpened, rv: now}, input{typ: inPage, rv: now})
				case openWatch:
					inputs = append(inputs, input{typ: inOpened})
					if c.bookmark {
						c.bookmark = false
						inputs = append(inputs, input{typ: inBookmark, rv: now})
					}
					inputs = append(inputs, input{typ: inProbed, rv: now, after: bookmarkPeriod})
				}
			}
		}
		if lists < c.least || lists > c.most {
			t.Errorf("%d lists a day, want %d to %d", lists, c.least, c.most)
		}
	}
}

// TestStepsFromAnywhere walks at random through all inputs, in every mode, and checks the rules
// that each step must follow. When a request or wait has ended, exactly one request or wait
// follows. Each replace is started and ended once. No wait is too long. A resourceVersion decreases
// only with ErrWentBack in the Status. No watch precedes the first list.
func TestStepsFromAnywhere(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{Mode: Mode(rng.IntN(4)), Consistency: Consistency(rng.IntN(2))}.withDefaults()
		s := newState(&cfg, []string{"", "1000"}[rng.IntN(2)])
		in := input{typ: inBegin}
		var under action // the current request; answered is true if its response had code 200
		answered, wentBack := false, false
		for i := range 400 {
			before := s
			var actions []action
			s, actions = step(s, in)
			err := checkStep(before, s, in, actions)
			if err == nil {
				wentBack = wentBack || before.sentinel() == ErrWentBack || s.sentinel() == ErrWentBack
				err = checkWalk(before, s, in, actions, wentBack)
				wentBack = wentBack && before.relists == s.relists
			}
			if err != nil {
				t.Fatalf("seed %d, step %d, %s, %+v: %v", seed, i, under, in, err)
			}
			answered = answered || in.typ == inOpened
			if last := len(actions) - 1; last >= 0 && isRequest(actions[last]) {
				under, answered = actions[last], false
			}
			in = happen(rng, s, under, answered)
		}
	}
}

func checkWalk(before, after state, in input, actions []action, wentBack bool) error {
	for _, a := range actions {
		switch a := a.(type) {
		case wait:
			if a.d > maxRetryAfter*11/10 {
				return fmt.Errorf("%s is too long", a)
			}
		case openWatch:
			if !after.synced && !after.initial {
				return fmt.Errorf("%s without a list", a)
			}
		case openList:
			if a.page != "" && (a.rv != "" || a.match != "") {
				return fmt.Errorf("%s is what a server refuses", a)
			}
		case endReplace:
			if resourceversion.Older(a.rv, before.rv) && !wentBack {
				return fmt.Errorf("%s without telling", a)
			}
		case progress:
			if resourceversion.Older(a.rv, before.rv) {
				return fmt.Errorf("%s is back in time", a)
			}
		}
	}
	// A stream that ends while it is idle is no failure.
	idle := before.open && in.typ == inFailed && in.err.Sentinel == ErrUnreachable
	if in.typ == inFailed && before.request != reqVersion && after.request != reqList && after.err == nil && !idle {
		return fmt.Errorf("a failure that is not told")
	}
	if after.replacing && after.request != reqList && !after.initial {
		return fmt.Errorf("a replace without an end")
	}
	return nil
}

// failures are the errors that the function happen may return.
var failures = func() (all []error) {
	for _, what := range []string{"refused", "broken-off", "truncated", "malformed", "no-bookmark", "too-large", "event-410",
		"http-400", "http-401", "http-403", "http-404", "http-405", "http-410", "http-422", "http-429", "http-500", "http-502"} {
		all = append(all, failure(what))
	}
	return all
}()

// happen draws a random input that may follow the current request.
func happen(rng *rand.Rand, s state, under action, answered bool) input {
	in := input{jitter: rng.Float64(), after: time.Duration(rng.Int64N(int64(3 * time.Minute)))}
	rv := strconv.Itoa(900 + rng.IntN(400))
	if rng.IntN(3) == 0 && s.rv != "" {
		rv = s.rv + "0"
	}
	fail := func() input {
		in.typ, in.err = inFailed, classify(s.phase, failures[rng.IntN(len(failures))])
		in.retryAfter = time.Duration(rng.IntN(3)*rng.IntN(300)) * time.Second
		in.torn = rng.IntN(2) == 0
		return in
	}
	if _, ok := under.(wait); ok {
		in.typ = inWoke
		return in
	}
	if rng.IntN(4) == 0 {
		return fail()
	}
	switch a := under.(type) {
	case askVersion:
		in.typ, in.major, in.minor = inVersion, 1, 25+rng.IntN(15)
	case askNewest:
		if in.typ = inNewest; rng.IntN(8) > 0 {
			in.rv = rv
		}
	case openList:
		if in.typ = inOpened; answered {
			in.typ = inPage
		}
		if rng.IntN(5) > 0 {
			in.rv = rv
		}
		if in.typ == inPage && rng.IntN(3) > 0 && a.limit > 0 {
			in.cont = "token" + strconv.Itoa(rng.IntN(50))
		}
	case openWatch:
		switch k := rng.IntN(10); {
		case !answered:
			in.typ = inOpened
		case k < 4:
			if in.typ = inEvents; !s.initial {
				in.rv = rv
			}
		case k < 8:
			in.typ, in.rv, in.final = inBookmark, rv, k < 6 && s.initial
		case k < 9 && a.probe > 0:
			if in.typ, in.rv = inProbed, rv; rng.IntN(3) == 0 {
				in.typ, in.rv = inOutdated, ""
			}
		default:
			in.typ = inEnded
		}
	}
	return in
}

// lines returns the text of each transition.
func lines(all []Transition) (out []string) {
	for _, t := range all {
		line := fmt.Sprintf("%s: %s", t.After, t.Phase)
		if t.Reason != NoReason {
			line += " because " + t.Reason.String()
		}
		if next, _, _ := strings.Cut(t.Next(), " "); next != "" {
			line += ", " + next
		}
		if t.Err != nil {
			line += ", " + t.Err.Error()
		}
		out = append(out, line)
	}
	return out
}

// TestTransitions checks that the reflector records its transitions with their reasons, but not
// pages and events, and that it counts relists by reason.
func TestTransitions(t *testing.T) {
	withHarness(t, Config{Mode: Pages, PageSize: 2}, func(h *harness) {
		h.run(h.list("10/one", "a@1", "b@2"), h.list("10", "c@3"), deny(410, ""), h.list("90", "a@1", "c@80"), h.events("~a@91", "~a@92"))
		want := []string{
			"started: listing, LIST",
			"the list ended: watching, WATCH",
			"failed: listing because expired, LIST, watching: the resource version is too old: denied",
			"answered: listing because expired",
			"the list ended: watching, WATCH",
		}
		if got := lines(h.r.Transitions()); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		h.wantRelists(map[Reason]int{Expired: 1})
	})
}

// wantRelists checks the number of relists for each reason.
func (h *harness) wantRelists(want map[Reason]int) {
	h.t.Helper()
	sum := 0
	for reason, n := range h.r.Relists().All() {
		if n != want[reason] {
			h.t.Errorf("%d relists because %s, want %d", n, reason, want[reason])
		}
		sum += n
	}
	if got := h.r.Status().Relists; got != sum {
		h.t.Errorf("%d relists, %d with a reason", got, sum)
	}
}

// TestReasons checks which Reason the reflector reports for most causes of a list.
func TestReasons(t *testing.T) {
	newest := func(rv string) input { return input{typ: inNewest, rv: rv} }
	failed := func(what string) input { return input{typ: inFailed, err: classify(Watching, failure(what))} }
	for _, tc := range []struct {
		name  string
		after []input
		want  Reason
	}{
		{"410", []input{failed("http-410")}, Expired},
		{"an object that cannot be read", []input{{typ: inOpened}, {typ: inEvents, rv: "1001", damaged: 1}}, Unreadable},
		{"another server", []input{{typ: inOpened}, {typ: inProbed, rv: "ab12"}}, WentBack},
		{"another reflector's news", []input{{typ: inOutdated}}, WentBack},
		{"a replica that lags", []input{failed("too-large"), newest("900"), newest("1500")}, Behind},
		{"the resource is gone", []input{failed("http-404")}, Missing},
		{"500 again and again", []input{failed("http-500"), failed("http-500"), failed("http-500")}, Failed},
		{"403 again and again", []input{failed("http-403"), failed("http-403"), failed("http-403")}, Refused},
		{"no probe is answered", []input{{typ: inOpened}, {typ: inProbed, err: classify(Watching, failure("refused"))}}, Silent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Config{Mode: List}.withDefaults()
			s, _ := step(newState(&cfg, "1000"), input{typ: inBegin})
			for _, in := range tc.after {
				if s, _ = step(s, in); s.phase == Waiting && s.request != reqList {
					s, _ = step(s, input{typ: inWoke})
				}
			}
			if s.reason != tc.want || !s.lists() {
				t.Errorf("%q, want %q, in %+v", s.reason, tc.want, s)
			}
		})
	}
}

// TestUnversioned checks that the reflector lists again after a watch has ended if the server
// reports no resourceVersions.
func TestUnversioned(t *testing.T) {
	cfg := Config{Mode: List}.withDefaults()
	s := newState(&cfg, "")
	for _, in := range []input{{typ: inBegin}, {typ: inOpened}, {typ: inPage}, {typ: inOpened}, {typ: inEnded, after: time.Hour}} {
		s, _ = step(s, in)
	}
	if s.reason != Unversioned {
		t.Errorf("%q in %+v", s.reason, s)
	}
}

// TestTransitionsAreBounded checks that only the most recent transitions are stored.
func TestTransitionsAreBounded(t *testing.T) {
	var l transitionRing
	for i := range 3*maxTransitions + 5 {
		l.add(Transition{After: fmt.Sprint(i)})
		all := l.copied()
		if n := min(i+1, maxTransitions); len(all) != n || all[n-1].After != fmt.Sprint(i) || all[0].After != fmt.Sprint(i+1-n) {
			t.Fatalf("after %d: %d from %s", i, len(all), all[0].After)
		}
	}
}
