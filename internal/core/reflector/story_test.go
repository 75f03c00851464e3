package reflector

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// TestStories runs each file of testdata through step. A command is an input:
//
//	config mode=WatchList consistency=Any watch-timeout=3s    before begin; the rest has its default
//	begin [rv=N]                             Run, with a store that is current to N
//	woke                                     a wait has ended
//	version 1.37
//	newest [rv=N]                            the server reported its newest resourceVersion
//	opened [rv=N] [empty]                    a LIST or WATCH is answered with 200
//	page rv=N [continue=TOKEN] [damaged=N] [size=N]   a LIST's body ended normally
//	events [rv=N] [after=D] [damaged=N]
//	probed rv=N | failed=WHAT                a probe broke off its silent watch
//	outdated [after=D] [spread=D]            another reflector has found that the server went back
//	bookmark rv=N [final] [after=D]
//	ended after=D [probe=RESULT]             a WATCH's body ended normally; its probes were unanswered, answered or found newer
//	failed WHAT [retry-after=D] [after=D] [torn]    see failure; torn: within an event
//
// The expected output is the actions of the step (->), and the changes of the state.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		cfg := Config{}
		var s state
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "config" {
				cfg = configOf(t, d)
				return ""
			}
			in := inputOf(t, d, s.phase)
			if in.typ == inBegin {
				cfg = cfg.withDefaults()
				s = newState(&cfg, in.rv)
			}
			if in.typ != inBegin && (s.phase == Waiting) != (in.typ == inWoke) {
				d.Fatalf(t, "while %s", s.phase)
			}
			if asking := s.request == reqNewest || s.request == reqReaches; in.typ == inNewest && !asking || asking && (in.typ == inOpened || in.typ == inPage) {
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
			out.WriteString(changes(before, s))
			if out.Len() == 0 {
				return "nothing to do\n"
			}
			return out.String()
		})
	})
}

func configOf(t *testing.T, d *datadriven.TestData) Config {
	cfg := Config{}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "mode":
			cfg.Mode = map[string]Mode{"Auto": Auto, "List": List, "Pages": Pages, "WatchList": WatchList}[arg.Vals[0]]
		case "consistency":
			cfg.Consistency = map[string]Consistency{"MostRecent": MostRecent, "Any": Any}[arg.Vals[0]]
		case "watch-timeout":
			cfg.WatchTimeout = duration(t, d, arg.Vals[0])
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	return cfg
}

func inputOf(t *testing.T, d *datadriven.TestData, phase Phase) input {
	in := input{jitter: 0.5}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "rv":
			in.rv = arg.Vals[0]
		case "continue":
			in.cont = arg.Vals[0]
		case "damaged":
			fmt.Sscan(arg.Vals[0], &in.damaged)
		case "size":
			fmt.Sscan(arg.Vals[0], &in.size)
		case "failed":
			in.err = classify(Asking, failure(arg.Vals[0]))
		case "empty":
			in.empty = true
		case "probe":
			in.probe = map[string]probeResult{"unanswered": probeUnanswered, "answered": probeAnswered, "newer": probeFoundNewer}[arg.Vals[0]]
		case "final":
			in.final = true
		case "torn":
			in.torn = true
		case "newest-object":
			in.newestObjectRV = arg.Vals[0]
		case "after":
			in.after = duration(t, d, arg.Vals[0])
		case "retry-after":
			in.retryAfter = duration(t, d, arg.Vals[0])
		case "spread":
			in.spread = duration(t, d, arg.Vals[0])
		case "jitter":
			fmt.Sscan(arg.Vals[0], &in.jitter)
		}
	}
	types := map[string]inputType{
		"begin": inBegin, "woke": inWoke, "version": inVersion, "newest": inNewest, "probed": inProbed, "outdated": inOutdated, "opened": inOpened, "page": inPage, "events": inEvents,
		"bookmark": inBookmark, "ended": inEnded, "failed": inFailed,
	}
	in.typ = types[d.Cmd]
	switch in.typ {
	case inNone:
		d.Fatalf(t, "unknown command")
	case inVersion:
		fmt.Sscanf(d.CmdArgs[0].Key, "%d.%d", &in.major, &in.minor)
	case inFailed:
		err := failure(d.CmdArgs[0].Key)
		if err == nil {
			d.Fatalf(t, "unknown failure")
		}
		in.err = classify(phase, err)
	}
	return in
}

func duration(t *testing.T, d *datadriven.TestData, s string) time.Duration {
	v, err := time.ParseDuration(s)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

// failure returns the error that package source or wire returns for this name.
func failure(what string) error {
	switch what {
	case "refused":
		return &source.RequestError{Method: "GET", Path: "/x", Err: syscall.ECONNREFUSED}
	case "silent":
		return &source.RequestError{Method: "GET", Path: "/x", Err: source.ErrStalled}
	case "broken-off":
		return &wire.SyntaxError{Offset: 4711, What: "item", Err: &source.RequestError{Method: "LIST", Path: "/x", Err: syscall.ECONNRESET}}
	case "truncated":
		return &wire.SyntaxError{Offset: 4711, What: "item", Err: io.ErrUnexpectedEOF}
	case "malformed":
		return &wire.SyntaxError{Offset: 4711, What: "item", Err: wire.ErrMalformed}
	case "no-bookmark":
		return &source.RequestError{Method: "WATCH", Path: "/x", Err: ErrNoBookmark}
	case "too-large":
		return status(504, metav1.StatusReasonTimeout, metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})
	case "event-410":
		return &wire.StatusError{Err: status(410, metav1.StatusReasonExpired)}
	case "event-429":
		return &wire.StatusError{Err: status(429, metav1.StatusReasonTooManyRequests)}
	}
	var code int32
	if n, _ := fmt.Sscanf(what, "http-%d", &code); n == 1 {
		return status(code, "")
	}
	return nil
}

func status(code int32, reason metav1.StatusReason, causes ...metav1.StatusCause) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf("code %d", code),
		Details: &metav1.StatusDetails{Causes: causes},
	}}
}

// changes returns the fields of the state that a step changed, one in each line.
func changes(a, b state) string {
	var out strings.Builder
	change := func(name string, a, b any) {
		if as, bs := fmt.Sprint(a), fmt.Sprint(b); as != bs {
			fmt.Fprintf(&out, "%s: %s => %s\n", name, quoteEmpty(as), quoteEmpty(bs))
		}
	}
	change("phase", a.phase, b.phase)
	change("mode", a.mode, b.mode)
	change("resourceVersion", a.rv, b.rv)
	change("synced", a.synced, b.synced)
	change("relists", a.relists, b.relists)
	change("attempt", a.attempt, b.attempt)
	change("missing", a.missing, b.missing)
	change("refused watches", a.refused, b.refused)
	change("lists forced", a.forcedLists, b.forcedLists)
	change("failed answers", a.failedAnswers, b.failedAnswers)
	change("watches without an answer", a.unansweredWatches, b.unansweredWatches)
	change("answers to probes", a.answeredProbes, b.answeredProbes)
	change("empty", a.empty, b.empty)
	change("silence", a.silence, b.silence)
	change("lists without an answer", a.unansweredLists, b.unansweredLists)
	change("the server is to be proven", a.unconfirmed, b.unconfirmed)
	change("behind at", a.behind.at, b.behind.at)
	change("denied", a.behind.denied, b.behind.denied)
	change("next list consistent", a.consistent, b.consistent)
	change("next list at least", a.atLeast, b.atLeast)
	change("next list instead of a watch", a.insteadOfWatch, b.insteadOfWatch)
	change("a list stood in for a watch", a.stoodIn, b.stoodIn)
	change("lists in place of watches", a.standIns, b.standIns)
	change("next list whole", a.whole, b.whole)
	change("pages do not come through", a.unpaged, b.unpaged)
	change("lists broken", a.brokenLists, b.brokenLists)
	change("next list without initial events", a.withoutInitial, b.withoutInitial)
	change("next list rebases", a.rebase, b.rebase)
	change("reason", a.reason, b.reason)
	change("error", textOf(a.err), textOf(b.err))
	return out.String()
}

func textOf(err *Error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

func quoteEmpty(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// checkStep checks the rules that every step must follow; see TestStepsFromAnywhere.
func checkStep(before, after state, in input, actions []action) error {
	requests := 0
	for i, a := range actions {
		if isRequest(a) {
			requests++
			if i != len(actions)-1 {
				return fmt.Errorf("%s is not the last action", a)
			}
		}
		switch a := a.(type) {
		case wait:
			if a.d <= 0 {
				return errors.New("a wait of nothing")
			}
		case endReplace, abortReplace:
			if !before.replacing {
				return fmt.Errorf("%s without a replace", a)
			}
		case beginReplace:
			if before.replacing {
				return fmt.Errorf("%s within a replace", a)
			}
		}
	}
	over := in.typ != inOpened && in.typ != inEvents && in.typ != inBookmark && in.typ != inNone
	if over && requests != 1 {
		return fmt.Errorf("%d requests or waits after the one before is over", requests)
	}
	return nil
}

func isRequest(a action) bool {
	switch a.(type) {
	case openList, openWatch, askVersion, askNewest, wait:
		return true
	}
	return false
}
