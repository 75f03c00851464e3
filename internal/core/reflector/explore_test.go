package reflector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/testenv"
)

// answers is a server with permanent faults: it always answers one kind of request in the same way.
// Each field is the answer to one kind. The tests below do not check single steps. They check that
// a certain request, such as a LIST, follows after a limited number of requests.
type answers struct {
	version, list, page, newest, reaches, watch, initial string

	lists map[string]string // the answer to a LIST by its form and condition; the default is list
	late  bool              // lists state their resourceVersion after their items
}

// watchAnswers are the permanent faults of a server's WATCHes.
var watchAnswers = []string{
	"http-400", "http-401", "http-403", "http-404", "http-405", "http-406", "http-410", "http-422", "http-500", "http-502", "http-503", "http-504",
	"too-large", "malformed", "truncated", "broken-off", "event-410", "open event-410", "open http-500", "open malformed",
	"refused", "open broken-off", "open truncated", "ended at once", "ended later", "broken off later", "silent", "bookmark before",
}

// newestAnswers are the answers to a request for the newest resourceVersion.
var newestAnswers = []string{"same", "newer", "older", "none", "opaque", "http-400", "http-403", "http-404", "http-500", "refused", "too-large", "http-429"}

// TestWatchThatKeepsFailingBecomesAList checks that the reflector lists if watches keep failing. It
// tries each permanent fault of WATCHes with each answer to probes.
func TestWatchThatKeepsFailingBecomesAList(t *testing.T) {
	for _, mode := range []Mode{Auto, List, Pages, WatchList} {
		for _, watch := range watchAnswers {
			for _, newest := range newestAnswers {
				for _, reaches := range []string{"too-large", "older", "newer", "http-400", "refused"} {
					a := answers{version: "1.37", list: "http-500", newest: newest, reaches: reaches, watch: watch, initial: "http-500"}
					t.Run(fmt.Sprint(mode, "/", watch, "/", newest, "/", reaches), func(t *testing.T) {
						listed := func(n int, asked []string) bool { return slices.Contains(asked, "LIST") }
						a.explore(t, mode, "1000", listed)
						if watch != "bookmark before" { // its version cannot be compared with cd34
							a.explore(t, mode, "cd34", listed)
						}
					})
				}
			}
		}
	}
}

// TestListInEachForm checks, for each permanent fault of LISTs and of initial events, that the
// reflector requests both a whole list and pages.
func TestListInEachForm(t *testing.T) {
	faults := []string{"http-400", "http-422", "http-500", "http-503", "http-504", "malformed", "open malformed", "open truncated", "open broken-off"}
	for _, mode := range []Mode{Auto, List, Pages, WatchList} {
		for _, version := range []string{"1.37", "1.20", "http-403", "http-503", "refused"} {
			for _, list := range faults {
				for _, initial := range append([]string{"silent", "ended at once", "refused", "http-403", "http-410", "late http-403", "late broken-off"}, faults...) {
					a := answers{version: version, list: list, initial: initial}
					t.Run(fmt.Sprint(mode, "/", version, "/", list, "/", initial), func(t *testing.T) {
						a.explore(t, mode, "", func(n int, asked []string) bool {
							return slices.Contains(asked, "LIST") && slices.Contains(asked, "LIST limit")
						})
					})
				}
			}
		}
	}
}

// TestListThatAloneWorks checks servers that serve only one kind of LIST: whole or in pages,
// consistent or "not older than" the store. LISTs of all other kinds fail permanently, with
// different faults. Some of them end in the middle, and some state their version after the items.
// Watches fail as well, and probes may fail. The reflector must request the LIST that works.
func TestListThatAloneWorks(t *testing.T) {
	testenv.SkipUnderRace(t)
	lists := []string{"LIST ", "LIST NotOlderThan", "LIST limit ", "LIST limit NotOlderThan"}
	faults := []string{"http-403", "http-410", "http-500", "open truncated", "late truncated", "broken-off"}
	for _, mode := range []Mode{Auto, List, Pages, WatchList} {
		for works, one := range lists {
			for n := range len(faults) * len(faults) * len(faults) {
				failing := map[string]string{}
				for i, list := range slices.Delete(slices.Clone(lists), works, works+1) {
					failing[list] = faults[n/[]int{1, len(faults), len(faults) * len(faults)}[i]%len(faults)]
				}
				t.Run(fmt.Sprint(mode, "/", one, "/", failing), func(t *testing.T) {
					for _, newest := range []string{"newer", "http-403", "refused"} {
						for _, watch := range []string{"http-500", "event-410", "ended later", "silent", "refused"} {
							if newest == "refused" && watch == "refused" {
								continue // no server runs: most requests are watches
							}
							a := answers{version: "1.37", lists: failing, newest: newest, reaches: newest, watch: watch, initial: "http-500"}
							a.explore(t, mode, "1000", func(_ int, asked []string) bool { return slices.Contains(asked, one) })
						}
					}
				})
			}
		}
	}
}

// TestTooLargeForGood checks servers whose watch cache never reaches the newest version that the
// server reports. The cache does not advance, or etcd reports no progress to it. Such a server
// refuses initial events, and each list that must not be older than that version. The reflector
// must request a list without that condition, which etcd serves.
func TestTooLargeForGood(t *testing.T) {
	refused := map[string]string{"LIST NotOlderThan": "too-large", "LIST limit NotOlderThan": "too-large"}
	for _, mode := range []Mode{Auto, List, Pages, WatchList} {
		for _, late := range []bool{false, true} {
			for _, rv := range []string{"", "1000"} {
				for _, newest := range []string{"same", "newer"} {
					for _, watch := range watchAnswers {
						if watch == "refused" {
							continue // no server runs
						}
						a := answers{version: "1.37", lists: refused, late: late, newest: newest, reaches: "too-large", watch: watch, initial: "too-large"}
						t.Run(fmt.Sprint(mode, "/", late, "/", rv, "/", newest, "/", watch), func(t *testing.T) {
							a.explore(t, mode, rv, func(_ int, asked []string) bool {
								return slices.Contains(asked, "LIST ") || slices.Contains(asked, "LIST limit ")
							})
						})
					}
				}
			}
		}
	}
}

// TestSecondPageFails checks a list whose second page keeps failing. The reflector must request
// the whole list, or start the list again several times.
func TestSecondPageFails(t *testing.T) {
	for _, page := range []string{"http-400", "http-403", "http-404", "http-410", "http-500", "malformed", "broken-off", "open malformed", "open broken-off"} {
		a := answers{version: "1.20", list: "pages", page: page}
		t.Run(page, func(t *testing.T) {
			a.explore(t, Pages, "", func(n int, asked []string) bool {
				return slices.Contains(asked, "LIST") || count(asked, "LIST limit") > 3
			})
		})
	}
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// maxRequests is the maximum number of requests before the expected request.
const maxRequests = 60

// explore runs step against the server until done returns true for the requests so far. The first
// state is current to rv. After maxRequests, explore fails the test.
func (a answers) explore(t *testing.T, mode Mode, rv string, done func(n int, asked []string) bool) {
	t.Helper()
	cfg := Config{Mode: mode}.withDefaults()
	s := newState(&cfg, rv)
	s.rvAtEnd = s.rvAtEnd && a.lists == nil || a.late
	var asked, log []string
	inputs := []input{{typ: inBegin}}
	var waited time.Duration
	for requests := 0; requests < maxRequests; {
		in := inputs[0]
		inputs = inputs[1:]
		in.jitter = 0.5
		before := s
		var actions []action
		s, actions = step(s, in)
		if err := checkStep(before, s, in, actions); err != nil {
			t.Fatalf("%v after %v", err, log)
		}
		for _, act := range actions {
			log = append(log, act.String())
			switch act := act.(type) {
			case wait:
				waited += act.d
				inputs = []input{{typ: inWoke}}
			case openList:
				requests++
				list := "LIST"
				if act.limit > 0 {
					list += " limit"
				}
				if act.page == "" {
					variant := list + " " + string(act.match)
					asked = append(asked, list, variant)
					inputs = a.answer(Listing, cmp.Or(a.lists[variant], a.list))
				} else {
					inputs = a.answer(Listing, a.page)
				}
			case askVersion:
				requests++
				inputs = []input{{typ: inVersion, major: 1, minor: 37}}
				if a.version == "1.20" {
					inputs[0].minor = 20
				} else if a.version != "1.37" {
					inputs = a.answer(Asking, a.version)
				}
			case askNewest:
				requests++
				if inputs = a.answer(Asking, a.newest); act.reaches != "" {
					inputs = a.answer(Asking, a.reaches)
				}
			case openWatch:
				requests++
				inputs = a.watched(act)
			}
		}
		if done(requests, asked) {
			return
		}
	}
	t.Errorf("not within %d requests and %v: %v", maxRequests, waited, log[max(0, len(log)-30):])
}

// answer returns the inputs that follow a request other than a WATCH. The argument what is the
// content of a field of answers.
func (a answers) answer(phase Phase, what string) []input {
	versions := map[string]string{"same": "1000", "newer": "1500", "older": "600", "none": "", "opaque": "ab12"}
	if rv, ok := versions[what]; ok {
		return []input{{typ: inNewest, rv: rv}}
	}
	if what == "pages" {
		return []input{{typ: inOpened, rv: "1000"}, {typ: inPage, rv: "1000", cont: "one"}}
	}
	open := []input{}
	if rest, ok := strings.CutPrefix(what, "open "); ok {
		open, what = append(open, input{typ: inOpened, rv: "1500"}), rest
	} else if rest, ok := strings.CutPrefix(what, "late "); ok {
		// The resourceVersion follows after the items.
		open, what = append(open, input{typ: inOpened}), rest
	}
	return append(open, input{typ: inFailed, err: classify(phase, failure(what)), after: time.Second})
}

// watched returns the inputs that follow a WATCH. If the watch remains open, a probe follows.
func (a answers) watched(w openWatch) []input {
	what := a.watch
	if w.initial {
		what = a.initial
	}
	opened := input{typ: inOpened}
	switch what {
	case "ended at once":
		return []input{opened, {typ: inEnded, after: time.Millisecond}}
	case "ended later": // the server ends the watch at its timeout
		return []input{opened, {typ: inEnded, after: defaultWatchTimeout * 3 / 2}}
	case "broken off later":
		return []input{opened, {typ: inFailed, err: classify(Watching, failure("broken-off")), after: defaultWatchTimeout}}
	case "bookmark before":
		return []input{opened, {typ: inBookmark, rv: "900", after: time.Second}}
	case "silent":
		if w.initial {
			return []input{opened, {typ: inFailed, err: classify(Listing, failure("no-bookmark")), after: 20 * time.Second}}
		}
		in := a.answer(Asking, a.newest)[0]
		in.after = bookmarkPeriod
		return []input{opened, {typ: inProbed, rv: in.rv, err: in.err, after: bookmarkPeriod}}
	}
	open := []input{}
	after := shortWatch - time.Millisecond
	if rest, ok := strings.CutPrefix(what, "open "); ok {
		open, what = append(open, opened), rest
	} else if rest, ok := strings.CutPrefix(what, "late "); ok {
		after = 15 * time.Second
		open, what = append(open, opened, input{typ: inEvents, after: after}), rest
	}
	phase := Watching
	if w.initial {
		phase = Listing
	}
	return append(open, input{typ: inFailed, err: classify(phase, failure(what)), after: after})
}
