package reflector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// lines returns transitions as lines.
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

// TestTransitions: what a reflector did is recorded with its reason, pages and events aside, and
// relists are counted by it.
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

// wantRelists compares the complete states after the first with those wanted, by reason.
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

// TestReasons: each way in which a list becomes necessary has its reason.
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

// TestUnversioned: a server without resourceVersions is listed whenever a watch has ended.
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

// TestTransitionsAreBounded: the last ones are kept.
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
