package reflector

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// node is a kind of request in the diagram of docs/explanation/reflector.md.
type node string

const (
	start         node = "run"
	due           node = "due" // a list is due; its form is not decided yet
	askingVersion node = "version"
	asking        node = "newest" // requests the newest resourceVersion, for any purpose
	listing       node = "list"
	initial       node = "initial"
	watched       node = "watch"
)

var nodes = []struct {
	id   node
	text string
}{
	{start, "([Run])"},
	{due, "{{a list is due}}"},
	{askingVersion, "[GET /version]"},
	{listing, "[LIST]"},
	{initial, "[WATCH with initial events]"},
	{watched, "[WATCH]"},
	{asking, "[LIST limit=1 for the newest resourceVersion]"},
}

type edge struct {
	from, to node
	waits    bool
}

// TestDiagram compares the diagram in docs/explanation/reflector.md with the transitions of step,
// which it finds by random walks. With -rewrite it writes the diagram. 4,000 walks find every
// transition; the test makes more.
func TestDiagram(t *testing.T) {
	testenv.SkipUnderRace(t)
	const (
		file        = "../../../docs/explanation/reflector.md"
		open, close = "```mermaid\n", "```\n"
	)
	drawn := draw(transitions(6000))
	text, err := os.ReadFile(file)
	check.NoError(t, err)
	before, rest, found := strings.Cut(string(text), open)
	was, after, closed := strings.Cut(rest, close)
	if !found || !closed {
		t.Fatalf("%s has no diagram", file)
	}
	if was == drawn {
		return
	}
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		check.NoError(t, os.WriteFile(file, []byte(before+open+drawn+close+after), 0o644))
		return
	}
	t.Errorf("the transitions are\n%sand not those of %s; see them there with -rewrite", drawn, file)
}

// transitions returns the transitions between nodes that the given number of random walks find,
// with their labels.
func transitions(walks uint64) map[edge]map[string]bool {
	found := map[edge]map[string]bool{}
	add := func(e edge, label string) {
		if found[e] == nil {
			found[e] = map[string]bool{}
		}
		found[e][label] = true
	}
	for seed := range walks {
		rng := rand.New(rand.NewPCG(seed, 2))
		cfg := Config{Mode: Mode(rng.IntN(4)), Consistency: Consistency(rng.IntN(2))}.withDefaults()
		s := newState(&cfg, []string{"", "1000"}[rng.IntN(2)])
		in := input{typ: inBegin}
		at, answered := start, false
		var under action
		for range 300 {
			before := s
			var actions []action
			s, actions = step(s, in)
			answered = answered || in.typ == inOpened
			if last := len(actions) - 1; last >= 0 && isRequest(actions[last]) {
				under, answered = actions[last], false
				asked := nodeOf(s)
				next := asked
				if asked == askingVersion || asked == initial || asked == listing && s.page == "" || asked == asking && s.askingListFloor {
					next = due // the form of the request depends on the mode
				}
				if in.typ != inWoke {
					add(edge{at, next, s.phase == Waiting}, labelOf(before, in, next))
				}
				if next == due && s.phase != Waiting {
					add(edge{due, asked, false}, s.mode.String())
				}
				if at = next; s.phase != Waiting {
					at = asked
				}
			} else if now := nodeOf(s); now != at {
				add(edge{at, now, false}, labelOf(before, in, now))
				at = now
			}
			in = likely(rng, s, under, answered, seed%2 == 0)
		}
	}
	return found
}

// likely draws the next input at random. If behind is true, the server often remains behind, so
// that walks also find transitions that need several responses of a server that is behind.
func likely(rng *rand.Rand, s state, under action, answered, behind bool) input {
	in := happen(rng, s, under, answered)
	if _, waits := under.(wait); waits {
		return in
	}
	switch held, err := strconv.Atoi(s.rv); {
	case behind && s.phase == Asking && rng.IntN(4) == 0:
		in.typ, in.err = inFailed, classify(Asking, failure("refused"))
	case behind && in.typ == inFailed && rng.IntN(2) == 0:
		in.err = classify(s.phase, failure("too-large"))
	case behind && in.rv != "" && err == nil && held > 1 && rng.IntN(2) == 0:
		in.rv = strconv.Itoa(held - 1)
	case rng.IntN(20) == 0:
		in.damaged = 1
		if in.rv != "" {
			in.rv = "ab12" // cannot be compared
		}
	}
	return in
}

// nodeOf returns the node of the current request or, during a wait, of the next request.
func nodeOf(s state) node {
	switch s.request {
	case reqVersion:
		return askingVersion
	case reqNewest, reqReaches:
		return asking
	case reqList:
		return listing
	case reqWatch:
		if s.initial {
			return initial
		}
		return watched
	}
	return start
}

// labelOf returns the label of an input: the error if the next request depends on the error, and
// otherwise the input's type.
func labelOf(before state, in input, next node) string {
	m := machine{state: before, in: in}
	switch {
	case in.typ == inFailed && m.brokeOffIdle():
		return "ended"
	case in.typ == inFailed && in.err.Sentinel == ErrExpired:
		return "410"
	case in.typ == inFailed && in.err.Sentinel == ErrServerBehind:
		return "504 too large"
	case in.typ == inFailed && in.err.Sentinel == ErrUnknownResource:
		return "404"
	case in.typ == inFailed, in.typ == inPage && before.page != "" && in.cont == before.page,
		in.typ == inPage && in.rv == "" && (before.versioned || before.pageRV != ""):
		return "failed"
	case in.typ == inProbed && (in.err != nil || !m.behindRV() && !otherScheme(in.rv, before.rv)):
		return "silent"
	case in.typ == inPage && next == listing:
		return "next page"
	case in.typ == inPage && next == watched, in.typ == inBookmark && next == watched:
		return "complete"
	case in.typ != inEvents && in.typ != inEnded && m.behindRV():
		return "older than held"
	case in.typ == inPage, in.rv != "" && resourceversion.Incomparable(in.rv, before.rv):
		return "incomparable"
	}
	return map[inputType]string{
		inBegin: "begin", inVersion: "answer", inNewest: "answer", inProbed: "silent", inEvents: "unreadable event",
		inOutdated: "told to list", inEnded: "ended",
	}[in.typ]
}

// summary joins labels. If one label is "failed", it omits the labels of single errors, because
// "failed" includes these errors.
func summary(labels map[string]bool) string {
	of := slices.Sorted(maps.Keys(labels))
	if labels["failed"] {
		of = slices.DeleteFunc(of, func(s string) bool { return s == "404" || s == "410" || s == "504 too large" })
	}
	if text := strings.Join(of, ", "); text != "Auto, List, Pages, WatchList" {
		return text
	}
	return "any mode"
}

// draw returns the transitions as a Mermaid flowchart.
func draw(found map[edge]map[string]bool) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	rank := map[node]int{}
	for i, n := range nodes {
		rank[n.id] = i
		fmt.Fprintf(&b, "  %s%s\n", n.id, n.text)
	}
	edges := slices.SortedFunc(maps.Keys(found), func(a, b edge) int {
		order := (rank[a.from]-rank[b.from])*100 + (rank[a.to]-rank[b.to])*10
		if a.waits != b.waits && a.waits {
			order++
		} else if a.waits != b.waits {
			order--
		}
		return order
	})
	for _, e := range edges {
		arrow := "-->"
		if e.waits {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  %s %s|%s| %s\n", e.from, arrow, summary(found[e]), e.to)
	}
	return b.String()
}
