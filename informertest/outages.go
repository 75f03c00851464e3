package informertest

import (
	"time"
)

var outages = []Story{
	{Name: "DownAtStart", Contract: "the informer waits, with backoff, for a server that is down at the start", play: downAtStart},
	{Name: "DownForLong", Contract: "after an outage the informer is current within 90 s, and has backed off meanwhile", play: downForLong},
	{Name: "WatchBroken", Contract: "a broken watch is resumed: the informer sends no list, and no change is lost or repeated", play: watchBroken},
	{Name: "WatchBrokenMidEvent", Contract: "half an event is ignored, and the next watch sends the event again", play: watchBrokenMidEvent},
	{Name: "WatchEnded", Contract: "a watch that ends is resumed without a list", play: watchEnded},
	{Name: "HangingRequest", Contract: "the informer abandons a first request without a response within five minutes, and sends it again",
		play: hangingRequest},
	{Name: "StalledList", Contract: "the informer abandons a list that stops half-way, on an open connection, within five minutes", play: stalledList},
	{Name: "StalledHead", Contract: "the informer abandons a list that stops within its first bytes, on an open connection, within five minutes",
		play: stalledHead},
	{Name: "OutageIsAnError", Contract: "an informer that lost its server has an error within a minute, and no error after the server has returned",
		play: outageIsAnError},
}

// downAtStart starts an informer ten minutes before the server accepts connections. In this time
// the informer may dial at most 100 times.
func downAtStart(s *storyRun) {
	s.fill(10)
	s.server.SetDown(true)
	inf, _ := s.started(Options{})
	s.elapse(10 * time.Minute)
	if n := s.server.Dials(); n > 100 {
		s.errorf("%d connections opened in ten minutes", n)
	}
	s.server.SetDown(false)
	s.eventually(90*time.Second, "HasSynced", inf.HasSynced)
	inf.current(time.Second)
}

// downForLong makes changes at the end of an outage of ten minutes. The server still has the
// changes in its history, so the informer can resume its watch. It must receive the changes within
// 90 s. During the outage, it may dial at most 600 times.
func downForLong(s *storyRun) {
	inf, l := s.follower(20)
	dials := s.server.Dials()
	s.server.SetDown(true)
	s.elapse(10 * time.Minute)
	if n := s.server.Dials() - dials; n > 600 {
		s.errorf("%d connections opened in ten minutes", n)
	}
	s.change()
	if !inf.HasSynced() {
		s.errorf("HasSynced is not true any more")
	}
	s.server.SetDown(false)
	l.getsMissed(90 * time.Second)
}

// watchBroken breaks the watch three times, with a change immediately before and immediately after.
// The informer must resume without a list.
func watchBroken(s *storyRun) {
	inf, l := s.follower(20)
	s.server.ForgetRequests()
	for i := range 3 {
		s.server.Put(pod(nth(i)))
		s.server.BreakWatches()
		s.server.Put(pod(nth(i), onNode("other")))
		inf.current(2 * time.Minute)
		s.elapse(time.Minute)
	}
	l.gets(6)
	s.noLists()
}

// noLists checks that the informer has not listed since ForgetRequests. It ignores a LIST with
// limit 1, by which an informer reads the server's resourceVersion.
func (s *storyRun) noLists() {
	for _, r := range s.server.Requests() {
		if r.Op == List && r.Query.Get("limit") != "1" || r.Query.Get("sendInitialEvents") == "true" {
			s.errorf("the state was listed again: %s %v", r.Op, r.Query)
		}
	}
}

// watchBrokenMidEvent breaks the watch in the middle of an event. The handler must not receive this
// event, but must receive a change that is made afterwards.
func watchBrokenMidEvent(s *storyRun) {
	inf, l := s.follower(5)
	s.server.BreakWatchesMidEvent(nth(2))
	s.elapse(100 * time.Millisecond)
	s.server.Put(pod(nth(2), onNode("other")))
	inf.current(2 * time.Minute)
	l.gets(1)
}

// watchEnded runs an informer for an hour, in which watches end at the deadline that the informer
// requests with timeoutSeconds. The informer must resume them without a list.
func watchEnded(s *storyRun) {
	inf, l := s.follower(5)
	s.server.ForgetRequests()
	s.elapse(time.Hour)
	if n := s.server.Count(Watch); n < 5 || n > 60 {
		s.errorf("%d watches in an hour", n)
	}
	s.noLists()
	s.server.Put(pod(nth(0), onNode("other")))
	inf.current(time.Minute)
	l.gets(1)
}

// hangingRequest makes the server leave the first LIST and the first WATCH unanswered. The informer
// must sync within five minutes.
func hangingRequest(s *storyRun) {
	s.fill(5)
	s.answer(1, Answer{Hang: true})
	s.syncsWithin(5 * time.Minute)
}

// stalledList makes the server never send the last item of the first LIST, or the bookmark of the
// first WATCH. The informer must sync within five minutes.
func stalledList(s *storyRun) {
	s.fill(5)
	s.answer(1, Answer{Hold: make(chan struct{})})
	s.syncsWithin(5 * time.Minute)
}

// stalledHead makes the server stall before the first byte of a LIST's body, or within its first 30
// bytes, which come before the first item. The informer must sync within five minutes.
func stalledHead(s *storyRun) {
	s.fill(5)
	for _, n := range []int{0, 1, 10, 30} {
		s.answer(1, Answer{Stall: &n})
		s.syncsWithin(5 * time.Minute).stop()
	}
}

// outageIsAnError takes the server down and up again. Err must return an error during the outage,
// and nil after it.
func outageIsAnError(s *storyRun) {
	s.fill(5)
	inf := s.informer(Options{})
	inf.synced()
	s.server.SetDown(true)
	s.eventually(time.Minute, "an error that says so", func() bool { return inf.Err() != nil })
	s.server.SetDown(false)
	s.eventually(90*time.Second, "the error going", func() bool { return inf.Err() == nil })
}
