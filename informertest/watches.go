package informertest

import (
	"time"
)

var watches = []Story{
	{Name: "WatchEndsAtOnce", Contract: "an informer follows a server that ends every watch immediately without an error, and sends it few requests",
		Issue: "kubernetes 137089", play: watchEndsAtOnce},
	{Name: "BookmarkMovesOn", Contract: "the next watch starts at the last bookmark, so a quiet resource is not listed again", play: bookmarkMovesOn},
	{Name: "InitialEventsIgnored", Contract: "the informer syncs within two minutes with a server that ignores requests for initial events",
		Issue: "k9s 4044, kubernetes 140890, steve 1229", play: initialEventsIgnored},
	{Name: "BookmarkNeverComes", Contract: "the informer syncs within two minutes if the server never sends the bookmark after the initial events",
		Issue: "k9s 4044, kubernetes 140890, steve 1229", play: bookmarkNeverComes},
	{Name: "InitialEventsRefused", Contract: "an informer lists if the server refuses initial events", play: initialEventsRefused},
	{Name: "NoBookmarks", Contract: "an informer follows an old server without bookmarks", play: noBookmarks},
	{Name: "RepeatedEvents", Contract: "a handler receives an event once that the server sends twice", Issue: "kubernetes 119646", play: repeatedEvents},
	{Name: "StaleEvent", Contract: "an event with an older version than the stored one changes nothing", play: staleEvent},
	{Name: "StrangeEvent", Contract: "an event of an unknown type does not stop the informer", play: strangeEvent},
	{Name: "GarbledEvent", Contract: "an event that cannot be decoded ends the watch, but not the informer", play: garbledEvent},
	{Name: "WebPage", Contract: "a proxy's web page instead of a response is a failure, and does not count as a list", play: webPage},
}

// watchEndsAtOnce makes the server end every watch immediately for ten minutes, and then makes
// changes that the informer can receive only in a list. The informer must send at most 120 LISTs
// and WATCHes in the ten minutes, and receive the changes within five minutes after that.
func watchEndsAtOnce(s *storyRun) {
	_, l := s.follower(20)
	s.server.ForgetRequests()
	s.server.Answer(Watch, Always, Answer{End: true})
	s.server.EndWatches()
	s.elapse(10 * time.Minute)
	s.sentAtMost(120)
	s.missed()
	l.getsMissed(5 * time.Minute)
}

// bookmarkMovesOn increases the server's resourceVersion without changing pods, and drops older
// versions. The informer must then resume without a list, which is possible only from the
// resourceVersion of a bookmark.
func bookmarkMovesOn(s *storyRun) {
	inf, l := s.follower(5)
	s.server.ForgetRequests()
	s.server.Advance(1000)
	s.elapse(3 * time.Minute) // the server sends a bookmark every minute
	s.server.Compact()
	s.server.EndWatches()
	s.server.Put(pod("ns/new"))
	inf.current(time.Minute)
	s.noLists()
	l.gets(1)
}

// initialEventsIgnored makes the server ignore the request for initial events, and send the state
// without the bookmark that ends initial events. The informer must sync within two minutes and
// receive later changes.
func initialEventsIgnored(s *storyRun) {
	s.fill(5)
	s.server.SetVersion(24)
	s.server.SetInitialEvents(Ignored)
	s.server.SetBookmarks(0)
	s.syncsAll()
}

// syncsAll runs an informer, and aborts the story if the informer does not sync within two minutes
// or does not receive later changes.
func (s *storyRun) syncsAll() {
	inf := s.syncsWithin(2 * time.Minute)
	s.server.Put(pod("ns/new"))
	s.server.Delete(nth(0))
	inf.current(time.Second)
}

// bookmarkNeverComes makes the server send the initial events without the bookmark that ends them.
// The informer must sync within two minutes and receive later changes.
func bookmarkNeverComes(s *storyRun) {
	s.fill(5)
	s.server.Answer(Watch, Always, Answer{NoBookmarks: true})
	s.syncsAll()
}

// initialEventsRefused makes the server answer 422 to the parameter sendInitialEvents, as with the
// feature gate WatchList off. The informer must sync within two minutes and receive later changes.
func initialEventsRefused(s *storyRun) {
	s.fill(5)
	s.server.SetVersion(30)
	s.server.SetInitialEvents(Refused)
	s.syncsAll()
}

// noBookmarks makes the server send no bookmarks for five hours, and changes a pod after each hour.
// The informer must have each change within a minute.
func noBookmarks(s *storyRun) {
	s.server.SetVersion(18)
	s.server.SetInitialEvents(Refused)
	s.server.SetBookmarks(0)
	inf, l := s.follower(5)
	for i := range 5 {
		s.elapse(time.Hour)
		s.server.Put(pod(nth(i), onNode("other")))
		inf.current(time.Minute)
	}
	l.gets(5)
}

// repeatedEvents makes the server send every pod again, in an ADDED and a MODIFIED event with an
// unchanged version. The handler must not receive these events.
func repeatedEvents(s *storyRun) {
	inf, l := s.follower(20)
	for i := range 20 {
		s.server.Repeat("ADDED", nth(i))
		s.server.Repeat("MODIFIED", nth(i))
	}
	s.server.Put(pod("ns/last"))
	inf.current(time.Second)
	l.getsOnly(1)
}

// staleEvent makes the server send an earlier version of a pod, in a MODIFIED and then in an ADDED
// event. The handler must not receive this version.
func staleEvent(s *storyRun) {
	s.fill(3)
	inf, l := s.synced(Options{})
	old := s.server.Pod(nth(1))
	s.server.Put(pod(nth(1), onNode("newer")))
	inf.current(time.Second)
	l.takeEvents()
	s.server.Inject("MODIFIED", old)
	s.server.Inject("ADDED", old)
	s.server.Put(pod("ns/last"))
	s.eventually(time.Minute, "a handler receives the change after it", func() bool { _, ok := l.view()["ns/last"]; return ok })
	inf.current(2 * time.Minute)
	l.gets(1)
}

// strangeEvent makes the server send an event of the unknown type STRANGE. The informer must still
// receive later changes.
func strangeEvent(s *storyRun) {
	inf, _ := s.follower(3)
	s.server.Inject("STRANGE", s.server.Pod(nth(1)))
	s.server.Put(pod("ns/new"))
	inf.current(2 * time.Minute)
}

// garbledEvent makes the server send three events, of which the second cannot be decoded. The
// handler must receive the other two.
func garbledEvent(s *storyRun) {
	inf, l := s.follower(3)
	s.server.Put(pod("ns/new"))
	s.server.Garble()
	s.server.Put(pod(nth(0), onNode("other")))
	inf.current(2 * time.Minute)
	l.gets(2)
}

// webPage makes the server answer with a web page for five minutes at the start, and later for five
// more minutes. The informer must not sync because of a web page, and must receive the missed
// changes when the server answers normally.
func webPage(s *storyRun) {
	s.fill(3)
	s.answer(Always, Answer{Page: true})
	_, l := s.started(Options{})
	s.elapse(5 * time.Minute)
	l.notSynced("synced after a web page")
	s.server.Normal()
	l.syncs(90 * time.Second)
	l.takeEvents()
	s.answer(Always, Answer{Page: true})
	s.server.EndWatches()
	s.elapse(5 * time.Minute)
	l.gets(0)
	s.missed()
	s.server.Normal()
	l.getsMissed(2 * time.Minute)
}
