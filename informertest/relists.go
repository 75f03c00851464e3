package informertest

import (
	"maps"
	"slices"
	"time"
)

var relists = []Story{
	{Name: "GoneEvent", Contract: "after 410 in the stream, the informer lists again, and handlers receive the missed changes", play: goneEvent},
	{Name: "GoneStatus", Contract: "after 410 as the response to a WATCH, the informer lists again, and handlers receive the missed changes", play: goneStatus},
	{Name: "RelistReportsOnlyChanges", Contract: "after a relist, handlers receive only changes", Issue: "kubernetes 119646",
		play: relistReportsOnlyChanges},
	{Name: "RelistIsNoResync", Contract: "after a relist, a handler with a resync period also receives only changes",
		Issue: "kubernetes 119646", play: relistIsNoResync},
	{Name: "DeletedUnseen", Contract: "after a relist, a handler receives a missed deletion with the last known state",
		Issue: "calico 12793, 13663, meshsync 566, grafana-app-sdk 1352", play: deletedUnseen},
	{Name: "RecreatedUnseen", Contract: "a handler receives the new object if an object was deleted and created again between watches", play: recreatedUnseen},
	{Name: "PassedUnseen", Contract: "a handler does not receive an object that was created and deleted between watches", play: passedUnseen},
	{Name: "FirstListBroken", Contract: "the informer retries a first list that breaks half-way, and handlers receive each object once", play: firstListBroken},
	{Name: "RelistBroken", Contract: "a relist that breaks half-way deletes nothing", play: relistBroken},
	{Name: "RelistIsWhole", Contract: "readers see no state between those before and after a relist, and handlers receive its deletions first",
		play: relistIsWhole},
	{Name: "EndlessTooOld", Contract: "an informer follows a server that rejects every resourceVersion as too old, and sends it few requests",
		Issue: "kubernetes 133810", play: endlessTooOld},
	{Name: "InitialEventsTooOld", Contract: "an informer lists if a server always answers requests for initial events with 410, and sends it few requests",
		Issue: "kubernetes 133810", play: initialEventsTooOld},
	{Name: "EndlesslyBroken", Contract: "an informer sends few requests to a server whose lists always break half-way, and does not sync",
		play: endlesslyBroken},
	{Name: "ExpiredContinueToken", Contract: "a continue token that expires causes a new list, and nothing is lost", play: expiredContinueToken},
	{Name: "RestoredFromBackup", Contract: "an informer follows a server that went back in time within half an hour", play: restoredFromBackup},
}

// change updates one pod, deletes a second pod and creates a third.
func (s *storyRun) change() {
	s.server.Put(pod(nth(0), onNode("other")))
	s.server.Delete(nth(1))
	s.server.Put(pod("ns/new"))
}

// missed makes the same changes as the function change, and drops them from the server's history,
// so that the informer can receive them only in a list.
func (s *storyRun) missed() {
	s.change()
	s.server.Compact()
}

// getsMissed waits until the informer is current, and checks that the listener has received exactly
// the changes that the function change or the function missed has made.
func (l *listener) getsMissed(within time.Duration) {
	l.of.current(within)
	var got []string
	for _, e := range changes(l.takeEvents()) {
		if got = append(got, string(e.verb)+" "+e.key); e.initial {
			l.s.errorf("received %v long after the first list", e)
		}
	}
	slices.Sort(got)
	want := []string{"added ns/new", "deleted " + nth(1), "updated " + nth(0)}
	if !slices.Equal(got, want) {
		l.s.errorf("received %v, want %v", got, want)
	}
}

// expire ends the watch with 410, so that the informer lists again.
func (s *storyRun) expire() {
	s.server.Advance(5)
	s.server.Compact()
	s.server.FailWatches(Gone())
}

// sentAtMost checks that the informer has sent at most n LISTs and WATCHes since the last
// ForgetRequests, or since the start. The story must have called ForgetRequests, or started, ten
// minutes ago.
func (s *storyRun) sentAtMost(n int) {
	if got := s.server.Count(List) + s.server.Count(Watch); got > n {
		s.errorf("%d requests in ten minutes", got)
	}
}

// goneEvent breaks the watch, makes changes and drops them from the server's history. The informer
// then tries to resume with a WATCH, which receives 410 in an ERROR event. Handlers must receive
// exactly the missed changes.
func goneEvent(s *storyRun) {
	_, l := s.follower(20)
	s.server.BreakWatches()
	s.missed()
	l.getsMissed(2 * time.Minute)
}

// goneStatus breaks the watch. The informer then tries to resume with a WATCH. The server answers
// it with the HTTP status 410, as some servers and proxies do. Handlers must receive exactly the
// missed changes.
func goneStatus(s *storyRun) {
	_, l := s.follower(20)
	s.server.Answer(Watch, 1, Answer{Status: Gone()})
	s.server.BreakWatches()
	s.missed()
	l.getsMissed(2 * time.Minute)
}

// relistReportsOnlyChanges makes an informer of 500 pods list three more times, and then changes
// one pod. The handler must receive only that change.
func relistReportsOnlyChanges(s *storyRun) {
	inf, l := s.follower(500)
	for range 3 {
		s.expire()
		s.elapse(2 * time.Minute)
	}
	s.server.Put(pod(nth(3), onNode("other")))
	inf.current(2 * time.Minute)
	l.getsOnly(1)
}

// relistIsNoResync makes an informer with a resync period of ten hours list again, and waits for
// two minutes. No object has changed and almost no resync is due, so the handler must receive at
// most five calls.
func relistIsNoResync(s *storyRun) {
	s.fill(100)
	_, l := s.synced(Options{Resync: 10 * time.Hour})
	l.takeEvents()
	s.expire()
	s.elapse(2 * time.Minute)
	// An informer that spreads its resync over the period may have resynced a few objects.
	if events := l.takeEvents(); len(events) > 5 {
		s.failf("received %d calls without a change, 2 minutes into a period of 10 hours", len(events))
	}
}

// deletedUnseen deletes ten pods while the server is down. The handler must receive each deletion
// with the version of the pod that it received last.
func deletedUnseen(s *storyRun) {
	inf, l := s.follower(20)
	s.server.SetDown(true)
	for i := range 10 {
		s.server.Delete(nth(i))
	}
	s.server.Compact()
	s.elapse(time.Minute)
	s.server.SetDown(false)
	inf.current(2 * time.Minute)
	l.gets(10)
}

// recreatedUnseen deletes a pod during an outage, and creates a pod of the same name with another
// uid. The handler's last call for this name must have the new uid.
func recreatedUnseen(s *storyRun) {
	inf, l := s.follower(3)
	s.server.SetDown(true)
	s.server.Delete(nth(1))
	s.server.Put(pod(nth(1)))
	s.server.Compact()
	s.server.SetDown(false)
	inf.current(2 * time.Minute)
	events := changes(l.takeEvents())
	if len(events) == 0 {
		s.failf("told nothing")
	}
	last := events[len(events)-1]
	if want := string(s.server.Pod(nth(1)).UID); last.verb == deleted || last.uid != want {
		s.failf("received %v last, with uid %s; want uid %s", last, last.uid, want)
	}
}

// passedUnseen creates and deletes a pod during an outage. The handler must receive no call for it.
func passedUnseen(s *storyRun) {
	inf, l := s.follower(3)
	s.server.SetDown(true)
	s.server.Put(pod("ns/passing"))
	s.server.Delete("ns/passing")
	s.server.Compact()
	s.elapse(10 * time.Second)
	s.server.SetDown(false)
	s.elapse(2 * time.Minute)
	inf.current(time.Second)
	l.gets(0)
}

// firstListBroken breaks the connection in the middle of the first two LISTs, and after most
// initial events of the first two WATCHes. The informer must sync, and the handler must receive
// each pod once.
func firstListBroken(s *storyRun) {
	s.fill(100)
	s.server.Answer(List, 2, Answer{Cut: 0.5})
	s.server.Answer(Watch, 2, Answer{Cut: 0.7})
	_, l := s.started(Options{})
	l.syncs(3 * time.Minute)
	l.getsOnly(100)
}

// relistBroken breaks the connection three times during a relist. The informer must keep all
// objects, and handlers must receive exactly the missed changes.
func relistBroken(s *storyRun) {
	_, l := s.follower(100)
	s.answer(3, Answer{Cut: 0.5})
	s.server.BreakWatches()
	s.missed()
	l.getsMissed(5 * time.Minute)
}

// relistIsWhole holds back the end of a relist for a while. Until then, the informer must store the
// objects from before the relist, and afterwards the handler must receive the deletion first.
func relistIsWhole(s *storyRun) {
	inf, l := s.follower(20)
	before := inf.ResourceVersions()
	hold := make(chan struct{})
	s.answer(Always, Answer{Hold: hold})
	s.server.SetDown(true) // otherwise a watch might continue before the history is dropped
	s.missed()
	s.server.SetDown(false)
	s.elapse(time.Minute)
	if got := inf.ResourceVersions(); !maps.Equal(got, before) {
		s.errorf("in the middle of a relist, the informer stores %v; before, it stored %v", got, before)
	}
	close(hold)
	inf.current(2 * time.Minute)
	if events := changes(l.takeEvents()); len(events) != 3 || events[0].verb != deleted {
		s.errorf("received %v, want the deletion first", events)
	}
}

// endlessTooOld makes the server answer 410 to every WATCH without initial events for ten minutes,
// while pods change. The informer must send at most 120 LISTs and WATCHes in this time. After that
// it must receive all changes, although the server still answers 410.
func endlessTooOld(s *storyRun) {
	inf, l := s.follower(50)
	s.server.ForgetRequests()
	s.server.Answer(Watch, Always, Answer{Status: Gone(), InStream: true, ResumeOnly: true})
	s.server.Advance(1)
	s.server.Compact()
	s.server.EndWatches()
	for i := range 10 {
		s.elapse(time.Minute)
		s.server.Put(pod(nth(i), onNode("other")))
	}
	s.sentAtMost(120)
	inf.current(2 * time.Minute)
	s.server.Normal()
	s.server.Put(pod("ns/new"))
	inf.current(2 * time.Minute)
	l.gets(11)
}

// initialEventsTooOld makes the server answer every WATCH that requests initial events with 410 in
// its stream. The informer must sync within two minutes.
func initialEventsTooOld(s *storyRun) {
	s.fill(50)
	s.server.Answer(Watch, Always, Answer{Status: Gone(), InStream: true, InitialOnly: true})
	inf := s.syncsWithin(2 * time.Minute)
	s.server.Put(pod("ns/new"))
	inf.current(time.Second)
}

// endlesslyBroken makes the server break every LIST and every WATCH's initial events half-way for
// ten minutes. The informer must send at most 200 LISTs and WATCHes in this time, and must not
// sync. After that it must sync within 90 s.
func endlesslyBroken(s *storyRun) {
	s.fill(30)
	s.answer(Always, Answer{Cut: 0.5})
	_, l := s.started(Options{})
	s.elapse(10 * time.Minute)
	l.notSynced("synced after a list that broke")
	s.sentAtMost(200)
	s.server.Normal()
	l.syncs(90 * time.Second)
}

// expiredContinueToken makes the server drop the continue token between two pages. The server
// reports an old Kubernetes version, so that informers list in pages. The informer must sync with
// the current pods within four minutes.
func expiredContinueToken(s *storyRun) {
	s.server.SetVersion(22)
	s.server.SetInitialEvents(Refused)
	s.fill(1800)
	s.server.Answer(List, Always, Answer{Delay: 2 * time.Second})
	inf, l := s.started(Options{})
	s.eventually(time.Minute, "the first LIST", func() bool { return s.server.Count(List) > 0 })
	s.elapse(3 * time.Second)
	s.server.Put(pod("ns/new"))
	s.server.Delete(nth(3))
	s.server.Delete(nth(1700))
	s.server.Compact()
	s.eventually(3*time.Minute, "HasSynced of the handler", l.HasSynced)
	inf.current(time.Minute)
}

// restoredFromBackup restores the server to an earlier state that has only two of the pods, and
// adds another pod. The informer must have the server's state within half an hour.
func restoredFromBackup(s *storyRun) {
	s.fill(10)
	inf, l := s.synced(Options{})
	kept, changed := s.server.Pod(nth(0)), s.server.Pod(nth(1))
	for i := range 10 {
		s.server.Put(pod(nth(i), onNode("later")))
	}
	s.server.Advance(500)
	s.server.Bookmark()
	inf.current(time.Second)
	l.takeEvents()
	// From here on, the server is restored, so events may have lower resourceVersions.
	l.mayGoBack()
	s.server.Restore(1005, kept, changed)
	s.server.Put(pod("ns/after"))
	inf.current(30 * time.Minute)
}
