package informertest

import (
	"time"
)

var watches = []Story{
	{Name: "WatchEndsAtOnce", Contract: "a server that ends every watch at once, without an error, is not hammered, and is followed",
		Issue: "kubernetes 137089", play: watchEndsAtOnce},
	{Name: "BookmarkMovesOn", Contract: "the next watch begins at the last bookmark, so a quiet resource is not listed again", play: bookmarkMovesOn},
	{Name: "InitialEventsIgnored", Contract: "the informer syncs within two minutes with a server that does not know initial events",
		Issue: "k9s 4044, kubernetes 140890, steve 1229", play: initialEventsIgnored},
	{Name: "BookmarkNeverComes", Contract: "the informer syncs within two minutes if the bookmark after the initial events never comes",
		Issue: "k9s 4044, kubernetes 140890, steve 1229", play: bookmarkNeverComes},
	{Name: "InitialEventsRefused", Contract: "a server that refuses initial events is listed", play: initialEventsRefused},
	{Name: "NoBookmarks", Contract: "an old server without bookmarks is followed", play: noBookmarks},
	{Name: "RepeatedEvents", Contract: "a handler gets an event once that comes twice", Issue: "kubernetes 119646", play: repeatedEvents},
	{Name: "StaleEvent", Contract: "an event of a version older than the held one changes nothing", play: staleEvent},
	{Name: "StrangeEvent", Contract: "an event of an unknown type stops nothing", play: strangeEvent},
	{Name: "GarbledEvent", Contract: "an event that cannot be decoded ends the watch, and not the informer", play: garbledEvent},
	{Name: "WebPage", Contract: "a proxy's web page in place of an answer is a failure, and does not count as a list", play: webPage},
}

// watchEndsAtOnce ends every watch for ten minutes, and then makes changes that only a list can
// return.
func watchEndsAtOnce(s *storyRun) {
	s.fill(20)
	inf, l := s.follower()
	s.server.ForgetRequests()
	s.server.Answer(Watch, Always, Answer{End: true})
	s.server.EndWatches()
	s.elapse(10 * time.Minute)
	if n := s.server.Count(List) + s.server.Count(Watch); n > 120 {
		s.errorf("%d requests in ten minutes", n)
	}
	s.missed()
	inf.current(5 * time.Minute)
	s.tellsMissed(l.takeEvents())
}

// bookmarkMovesOn changes other resources, not this one, and compacts the server.
func bookmarkMovesOn(s *storyRun) {
	s.fill(5)
	inf, l := s.follower()
	s.server.ForgetRequests()
	s.server.Advance(1000)
	s.elapse(3 * time.Minute) // a bookmark a minute
	s.server.Compact()
	s.server.EndWatches()
	s.server.Put(pod("ns/new"))
	inf.current(time.Minute)
	s.noLists()
	if n := len(changes(l.takeEvents())); n != 1 {
		s.failf("told %d times of one change", n)
	}
}

// initialEventsIgnored sends the state like an ordinary watch, without a bookmark at its end.
func initialEventsIgnored(s *storyRun) {
	s.fill(5)
	s.server.SetVersion(24)
	s.server.SetInitialEvents(Ignored)
	s.server.SetBookmarks(0)
	s.syncsAll()
}

// syncsAll runs an informer that must sync within two minutes and stay current.
func (s *storyRun) syncsAll() {
	inf := s.syncsWithin(2 * time.Minute)
	s.server.Put(pod("ns/new"))
	s.server.Delete(nth(0))
	inf.current(time.Second)
}

// bookmarkNeverComes sends the initial events, and never the bookmark that should end them.
func bookmarkNeverComes(s *storyRun) {
	s.fill(5)
	s.server.Answer(Watch, Always, Answer{NoBookmarks: true})
	s.syncsAll()
}

// initialEventsRefused answers 422, as with the feature gate off.
func initialEventsRefused(s *storyRun) {
	s.fill(5)
	s.server.SetVersion(30)
	s.server.SetInitialEvents(Refused)
	s.syncsAll()
}

// noBookmarks sends no bookmarks for five hours, and changes a pod after each hour.
func noBookmarks(s *storyRun) {
	s.fill(5)
	s.server.SetVersion(18)
	s.server.SetInitialEvents(Refused)
	s.server.SetBookmarks(0)
	inf, l := s.follower()
	for i := range 5 {
		s.elapse(time.Hour)
		s.server.Put(pod(nth(i), onNode("other")))
		inf.current(time.Minute)
	}
	if n := len(changes(l.takeEvents())); n != 5 {
		s.failf("told %d times of 5 changes", n)
	}
}

// repeatedEvents sends every pod again, as ADDED and as MODIFIED, like a server that has lost its
// position.
func repeatedEvents(s *storyRun) {
	s.fill(20)
	inf, l := s.follower()
	for i := range 20 {
		s.server.Repeat("ADDED", nth(i))
		s.server.Repeat("MODIFIED", nth(i))
	}
	s.server.Put(pod("ns/last"))
	inf.current(time.Second)
	if events := l.takeEvents(); len(events) != 1 {
		s.failf("told %d times of one change; first %v", len(events), events[0])
	}
}

// staleEvent sends an earlier version, and an earlier addition.
func staleEvent(s *storyRun) {
	s.fill(3)
	inf := s.informer(Options{})
	l := inf.listen(HandlerOptions{})
	inf.synced()
	old := s.server.Pod(nth(1))
	s.server.Put(pod(nth(1), onNode("newer")))
	inf.current(time.Second)
	l.takeEvents()
	s.server.Inject("MODIFIED", old)
	s.server.Inject("ADDED", old)
	s.server.Put(pod("ns/last"))
	s.eventually(time.Minute, "telling of the change behind it", func() bool { _, ok := l.view()["ns/last"]; return ok })
	inf.current(2 * time.Minute)
	if events := changes(l.takeEvents()); len(events) != 1 {
		s.failf("told %v of one change", events)
	}
}

// strangeEvent sends an event of type STRANGE.
func strangeEvent(s *storyRun) {
	s.fill(3)
	inf, _ := s.follower()
	s.server.Inject("STRANGE", s.server.Pod(nth(1)))
	s.server.Put(pod("ns/new"))
	inf.current(2 * time.Minute)
}

// garbledEvent sends an event that cannot be decoded between two that can.
func garbledEvent(s *storyRun) {
	s.fill(3)
	inf, l := s.follower()
	s.server.Put(pod("ns/new"))
	s.server.Garble()
	s.server.Put(pod(nth(0), onNode("other")))
	inf.current(2 * time.Minute)
	if n := len(changes(l.takeEvents())); n != 2 {
		s.failf("told %d times of 2 changes", n)
	}
}

// webPage answers with a web page for five minutes at the start, and for five minutes later.
func webPage(s *storyRun) {
	s.fill(3)
	s.answer(Always, Answer{Page: true})
	inf := s.informer(Options{})
	l := inf.listen(HandlerOptions{})
	inf.run()
	s.elapse(5 * time.Minute)
	if inf.HasSynced() || l.HasSynced() {
		s.failf("synced by a web page")
	}
	s.server.Normal()
	s.eventually(90*time.Second, "HasSynced of the handler", l.HasSynced)
	inf.current(time.Second)
	l.takeEvents()
	s.answer(Always, Answer{Page: true})
	s.server.EndWatches()
	s.elapse(5 * time.Minute)
	if events := changes(l.takeEvents()); len(events) != 0 {
		s.errorf("told %v by a web page", events)
	}
	s.missed()
	s.server.Normal()
	inf.current(2 * time.Minute)
	s.tellsMissed(l.takeEvents())
}
