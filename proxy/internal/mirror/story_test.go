package mirror

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/serve/feed"
)

// TestStories runs each file of testdata/stories through step. Each command is an input:
//
//	config [on-demand] [unresolved] [any-version]    before begin; unresolved: the version is unknown
//	begin
//	preferred [other] [failed=WHAT]                  see failure
//	described [failed=WHAT]
//	listed
//	status [watching] [synced] [attempts=N] [failed=WHAT]
//	checked [redefined] [failed=WHAT]
//	refused WHAT
//	restored
//	ended WHAT [objects=N]
//	woke
//	unwell
//	stop
//
// after=D is the time since the previous command. The output is the actions (->) and the changes of
// the state.
func TestStories(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "stories"), func(t *testing.T, path string) {
		s, now := *newState(pods, settings{restart: time.Second}), time.Unix(0, 0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "config" {
				gvr := pods
				if d.HasArg("unresolved") {
					gvr.Version = ""
				}
				s = *newState(gvr, settings{onDemand: d.HasArg("on-demand"), anyVersion: d.HasArg("any-version"), restart: time.Second})
				return ""
			}
			in := storyInput(t, d)
			now = now.Add(in.at.Sub(time.Time{}))
			if in.at = now; !mayHappen(s.phase, in.typ) {
				d.Fatalf(t, "while %s", s.phase)
			}
			before := s
			var actions []action
			s, actions = step(s, in)
			if err := checkStep(before, s, in, actions); err != nil {
				d.Fatalf(t, "%v", err)
			}
			var out strings.Builder
			for _, a := range actions {
				fmt.Fprintf(&out, "-> %s\n", a)
			}
			out.WriteString(changes(&before, &s))
			if out.Len() == 0 {
				return "nothing to do\n"
			}
			return out.String()
		})
	})
}

// storyInput returns the input of a command. The input's time is the zero time plus the time since
// the previous command.
func storyInput(t *testing.T, d *datadriven.TestData) input {
	types := map[string]inputType{
		"begin": inBegin, "preferred": inPreferred, "described": inDescribed, "listed": inListed, "status": inStatus, "checked": inChecked,
		"refused": inRefused, "restored": inRestored, "ended": inEnded, "woke": inWoke, "unwell": inUnwell, "stop": inStop,
	}
	in := input{typ: types[d.Cmd], watching: d.HasArg("watching"), synced: d.HasArg("synced"), version: pods.Version, redefined: d.HasArg("redefined")}
	if d.HasArg("other") {
		in.version = "v2"
	}
	what := ""
	if in.typ == inNone {
		d.Fatalf(t, "unknown command")
	}
	if in.typ == inRefused || in.typ == inEnded {
		what = d.CmdArgs[0].Key
	}
	d.MaybeScanArgs(t, "failed", &what)
	if what != "" {
		if in.err = failure(what); in.err == nil {
			d.Fatalf(t, "unknown failure %s", what)
		}
	}
	if in.typ == inDescribed && in.err == nil {
		in.session = &Session{}
	}
	d.MaybeScanArgs(t, "attempts", &in.attempts)
	d.MaybeScanArgs(t, "objects", &in.objects)
	if after := ""; d.MaybeScanArgs(t, "after", &after) {
		wait, err := time.ParseDuration(after)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		in.at = in.at.Add(wait)
	}
	return in
}

// failures maps the names of errors in testdata/stories to errors.
var failures = map[string]error{
	"went-back": feed.ErrWentBack, "relist-too-large": feed.ErrRelistTooLarge, "over-budget": errOverBudget,
	"redefined": ErrRedefined, "aggregated": errAggregated, "not-watchable": errNotWatchable,
	"unknown-origin": errors.Join(errUnknownOrigin, &apierrors.StatusError{ErrStatus: apierrors.NewUnauthorized("").ErrStatus}),
	"missing":        &reflector.Error{Phase: reflector.Watching, Sentinel: reflector.ErrUnknownResource},
	"forbidden":      &reflector.Error{Phase: reflector.Listing, Sentinel: reflector.ErrForbidden},
	"rejected":       &reflector.Error{Phase: reflector.Listing, Sentinel: reflector.ErrRejected},
	"server-error":   &reflector.Error{Phase: reflector.Listing, Sentinel: reflector.ErrServer},
	"unreachable":    &reflector.Error{Phase: reflector.Watching, Sentinel: reflector.ErrUnreachable},
	"network":        errors.New("no route"),
	"http-403":       apierrors.NewForbidden(pods.GroupResource(), "", nil),
	"http-404":       apierrors.NewNotFound(pods.GroupResource(), ""),
	"http-500":       apierrors.NewInternalError(errors.New("no conversion")),
}

func failure(what string) error { return failures[what] }

// mayHappen reports whether step may get an input of this type in a phase.
func mayHappen(p phase, in inputType) bool {
	switch in {
	case inBegin:
		return p == phaseStarting || p == phaseFinished
	case inPreferred:
		return p == phaseAsking
	case inDescribed:
		return p == phaseDescribing
	case inListed:
		return p == phaseLoading
	case inStatus, inChecked, inRefused, inEnded:
		return p == phaseLoading || p == phaseServing
	case inWoke:
		return p == phaseWaiting
	}
	return true
}

// checkStep checks the conditions that every step must meet.
func checkStep(before, after State, in input, actions []action) error {
	blocking := 0
	for i, a := range actions {
		switch a.(type) {
		case ask, describe, run, sleep, finish:
			if blocking++; i != len(actions)-1 {
				return fmt.Errorf("%q is not the last action", a)
			}
		case end, cached:
			if after.Session == nil {
				return fmt.Errorf("%q without a session", a)
			}
		case closeSession:
			if before.Session == nil || after.Session != nil {
				return fmt.Errorf("%q of a session that runs", a)
			}
		}
	}
	want := 0
	if slices.Contains([]inputType{inBegin, inPreferred, inDescribed, inEnded, inWoke}, in.typ) {
		want = 1
	}
	if blocking != want {
		return fmt.Errorf("%d actions that block, want %d", blocking, want)
	}
	if runs := after.phase == phaseLoading || after.phase == phaseServing; runs != (after.Session != nil) {
		return fmt.Errorf("session %v while %s", after.Session, after.phase)
	}
	if after.stopping && after.phase != before.phase && after.Session == nil && after.phase != phaseFinished {
		return fmt.Errorf("goes on %s though it is to stop", after.phase)
	}
	return nil
}

// changes describes the changes of a step to the state, one per line.
func changes(a, b *State) string {
	var out strings.Builder
	change := func(name string, a, b any) {
		if as, bs := fmt.Sprint(a), fmt.Sprint(b); as != bs {
			fmt.Fprintf(&out, "%s: %s => %s\n", name, as, bs)
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Sub(time.Unix(0, 0)).String()
	}
	change("version", quoted(a.gvr.Version), quoted(b.gvr.Version))
	change("phase", a.phase, b.phase)
	change("standing", a.Standing(), b.Standing())
	change("error", quoted(a.Err), quoted(b.Err))
	change("stopping", a.stopping, b.stopping)
	change("follows", a.follows, b.follows)
	change("unknown", a.unknown, b.unknown)
	change("attempts", a.attempts, b.attempts)
	change("refusals", a.refusals, b.refusals)
	change("behind since", at(a.behindSince), at(b.behindSince))
	change("failures", a.failures, b.failures)
	change("sessions", a.Sessions, b.Sessions)
	change("ready sessions", a.readySessions, b.readySessions)
	change("failed sessions", a.failed, b.failed)
	change("objects", a.objects, b.objects)
	change("redefined", at(a.redefined), at(b.redefined))
	change("may fail until", at(a.mayFail), at(b.mayFail))
	return out.String()
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// TestStepsFromAnywhere runs random sequences of possible inputs, and checks the conditions that
// every step must meet.
func TestStepsFromAnywhere(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := *newState(pods, settings{onDemand: rng.IntN(2) == 0, restart: time.Second})
		if !s.onDemand {
			if s.anyVersion = rng.IntN(2) == 0; s.anyVersion && rng.IntN(2) == 0 {
				s.gvr.Version = ""
			}
		}
		now := time.Unix(0, 0)
		for i := range 300 {
			in := input{typ: inputType(rng.IntN(int(inStop) + 1))}
			if in.typ == inNone || in.typ == inStop && rng.IntN(20) > 0 || !mayHappen(s.phase, in.typ) {
				continue
			}
			now = now.Add(time.Duration(rng.Int64N(int64(rereadTime))))
			in.at, in.watching, in.synced, in.version = now, rng.IntN(2) == 0, rng.IntN(2) == 0, []string{"v1", "v2"}[rng.IntN(2)]
			in.redefined, in.attempts, in.objects = rng.IntN(4) == 0, rng.IntN(finalMissing+2), rng.IntN(200)
			if rng.IntN(2) == 0 || in.typ == inRefused || in.typ == inEnded {
				in.err = failure(slices.Sorted(maps.Keys(failures))[rng.IntN(len(failures))])
			}
			if in.typ == inDescribed && in.err == nil {
				in.session = &Session{}
			}
			before := s
			var actions []action
			s, actions = step(s, in)
			if err := checkStep(before, s, in, actions); err != nil {
				t.Fatalf("seed %d, step %d, %+v: %v", seed, i, in, err)
			}
			if s.readySessions+s.failed > s.Sessions {
				t.Fatalf("seed %d, step %d: %d ready and %d failed of %d sessions", seed, i, s.readySessions, s.failed, s.Sessions)
			}
			if s.delay > maxRestartDelay {
				t.Fatalf("seed %d, step %d: a pause of %v", seed, i, s.delay)
			}
		}
	}
}

func (p phase) String() string {
	return [...]string{"starting", "asking", "describing", "loading", "serving", "waiting", "finished"}[p]
}

func (move) String() string     { return "move to the version" }
func (ask) String() string      { return "ask for the preferred version" }
func (describe) String() string { return "describe" }
func (run) String() string      { return "run the session" }
func (a sleep) String() string  { return "wait " + a.d.String() }

func (a finish) String() string {
	if a.err == nil {
		return "finish"
	}
	return fmt.Sprintf("finish: %v", a.err)
}

func (a end) String() string     { return fmt.Sprintf("end the session: %v", a.cause) }
func (endOthers) String() string { return "end the sessions of all other resources" }

func (a closeSession) String() string {
	if a.expires {
		return "expire the watches and close the session"
	}
	return "close the session"
}

func (cached) String() string    { return "note that the session serves" }
func (checkSoon) String() string { return "check soon" }
func (cancel) String() string    { return "cancel" }

func (a note) String() string {
	switch {
	case a.err != nil:
		return fmt.Sprintf("log %q: %v", a.text, a.err)
	case a.behind > 0:
		return fmt.Sprintf("log %q, behind for %v", a.text, a.behind)
	}
	return fmt.Sprintf("log %q", a.text)
}
