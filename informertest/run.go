package informertest

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Story checks one requirement for an informer.
type Story struct {
	Name     string
	Contract string // the requirement, in one sentence
	Issue    string // the issue that reported a violation; "" if there is none
	// Fatal is true if an informer that fails this story kills the process. If Rig.Fails names a fatal
	// story, Run plays it in a child process.
	Fatal bool

	play func(*storyRun)
}

// Stories returns all stories, in the order in which Run plays them.
func Stories() []Story {
	return slices.Concat(basics, indexes, handlers, resyncs, relists, outages, refusals, watches, memories, copies, undecodables, transforms, listerWatchers)
}

// Run plays every story with the rig's informer, each as a subtest with the story's name. At the
// end it logs the stories that Rig.Fails names and that failed.
//
// Run clears apimachinery's utilruntime.ErrorHandlers until it returns. One of these process-wide
// handlers pauses between logged errors; with the different clocks of several bubbles, it could
// pause for years.
func Run(t *testing.T, rig Rig) {
	t.Helper()
	if rig.New == nil || rig.Name == "" {
		t.Fatal("informertest: a Rig needs a Name and New")
	}
	stories := Stories()
	for name := range rig.Fails {
		if !slices.ContainsFunc(stories, func(s Story) bool { return s.Name == name }) {
			t.Errorf("informertest: Rig.Fails names a story that does not exist: %s", name)
		}
	}
	defer func(was []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = was }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil

	var failed sync.Map
	for _, story := range stories {
		t.Run(story.Name, func(t *testing.T) {
			if inChild() {
				reportFaults(t, play(t, rig, story)) // the parent judges the faults
				return
			}
			why, expected := rig.Fails[story.Name]
			var faults []string
			if expected && story.Fatal {
				faults = playInChild(t)
			} else {
				faults = play(t, rig, story)
			}
			switch {
			case expected && len(faults) == 0:
				t.Errorf("%s is stated to fail (%s), but does not\n%s", rig.Name, why, story.about())
			case expected:
				t.Logf("%s fails as stated: %s", rig.Name, faults[0])
				failed.Store(story.Name, faults[0])
			case len(faults) > 0:
				t.Errorf("%s\n%s", strings.Join(faults, "\n"), story.about())
			}
		})
	}
	report(t, rig, stories, &failed)
}

func (s Story) about() string {
	if s.Issue == "" {
		return "the contract: " + s.Contract
	}
	return fmt.Sprintf("the contract: %s (%s)", s.Contract, s.Issue)
}

// report logs a table of the stories that failed and that Rig.Fails names.
func report(t *testing.T, rig Rig, stories []Story, failed *sync.Map) {
	t.Helper()
	var rows strings.Builder
	n := 0
	for _, s := range stories {
		fault, ok := failed.Load(s.Name)
		if !ok {
			continue
		}
		n++
		fmt.Fprintf(&rows, "\n  %-34s %s\n  %-34s   because: %s\n  %-34s   seen:    %s",
			s.Name, s.about(), "", rig.Fails[s.Name], "", strings.SplitN(fault.(string), "\n", 2)[0])
	}
	if n > 0 {
		t.Logf("%s fails %d of %d stories, as stated:%s", rig.Name, n, len(stories), rows.String())
	}
}

// endWithin is how long an informer may take to stop, in the bubble's time. Every pause of a tested
// implementation is shorter.
const endWithin = 2 * time.Minute

// hangs limits the real time of a story. Most stories take milliseconds.
const hangs = 2 * time.Minute

// play plays one story in a bubble and returns its faults.
func play(t *testing.T, rig Rig, story Story) []string {
	watchdog := time.AfterFunc(hangs, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("informertest: %s, story %s: no time passes in the bubble: a goroutine spins, or waits for a lock", rig.Name, story.Name))
	})
	defer watchdog.Stop()
	s := &storyRun{rig: rig}
	synctest.Test(t, func(*testing.T) {
		s.start = time.Now()
		before := goroutines()
		s.server = NewServer()
		s.perform(story)
		s.end()
		synctest.Wait()
		if left := len(goroutines()) - len(before); left > 0 {
			s.errorf("%d goroutines are left after the stop", left)
			s.elapse(endWithin) // some goroutines end after a sleep
		}
		if left := goroutines(); len(left) > len(before) {
			// The bubble cannot end while these goroutines exist. synctest would also panic, but without the
			// name of the story.
			panic(fmt.Sprintf("informertest: %s, story %s: these goroutines never end:\n%s", rig.Name, story.Name, strings.Join(left, "\n\n")))
		}
	})
	slices.SortStableFunc(s.faults, func(a, b fault) int { return cmp.Compare(a.rank, b.rank) })
	texts := make([]string, len(s.faults))
	for i, f := range s.faults {
		texts[i] = f.text
	}
	return texts
}
