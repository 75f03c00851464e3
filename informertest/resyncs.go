package informertest

import (
	"time"
)

var resyncs = []Story{
	{Name: "ResyncReplays", Contract: "a resync passes every object to the handlers again, without a request",
		Issue: "client-go 382, 902", play: resyncReplays},
	{Name: "ResyncOff", Contract: "without a period there is no resync", play: resyncOff},
	{Name: "ResyncPerHandler", Contract: "a handler with its own longer period is resynced at that period", play: resyncPerHandler},
	{Name: "ResyncIsSpread", Contract: "a resync is spread over its period", play: resyncIsSpread},
	{Name: "ResyncAmongChanges", Contract: "a resync never passes a version that is older than the handler's, or a deleted object",
		play: resyncAmongChanges},
}

// rounds counts the resync events of each object, by key.
func rounds(events []event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		if e.resynced {
			n[e.key]++
		}
	}
	return n
}

// resyncReplays checks that the handler receives each object three to five times in four resync
// periods. The informer must send no request for resyncs. Meanwhile objects of other resources
// change.
func resyncReplays(s *storyRun) {
	s.fill(100)
	_, l := s.synced(Options{Resync: time.Minute})
	s.server.ForgetRequests()
	l.takeEvents()
	for range 4 {
		s.server.Advance(1)
		s.elapse(time.Minute)
	}
	if n := s.server.Count(List) + s.server.Count(Watch); n != 0 {
		s.errorf("%d requests were made by resyncs", n)
	}
	n := rounds(l.takeEvents())
	for i := range 100 {
		if got := n[nth(i)]; got < 3 || got > 5 {
			s.failf("%s was resynced %d times in 4 periods", nth(i), got)
		}
	}
}

// resyncOff checks that the handler receives no call in an hour without changes.
func resyncOff(s *storyRun) {
	_, l := s.follower(10)
	s.elapse(time.Hour)
	l.getsOnly(0)
}

// resyncPerHandler checks the number of resyncs of two handlers, with periods of one minute and ten
// minutes.
func resyncPerHandler(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{Resync: time.Minute})
	often, seldom := inf.listen(HandlerOptions{}), inf.listen(HandlerOptions{Resync: 10 * time.Minute})
	inf.synced()
	often.takeEvents()
	seldom.takeEvents()
	s.elapse(30 * time.Minute)
	quick, slow := rounds(often.takeEvents()), rounds(seldom.takeEvents())
	for i := range 10 {
		if n := quick[nth(i)]; n < 28 || n > 32 {
			s.errorf("%s was resynced %d times in 30 periods", nth(i), n)
		}
		if n := slow[nth(i)]; n < 2 || n > 4 {
			s.errorf("%s was resynced %d times in 3 periods of the handler", nth(i), n)
		}
	}
}

// resyncIsSpread divides three resync periods into 30 equal parts, and counts the resyncs in each
// part. No part may have more than twice the average number, and at least 25 parts must have a
// resync.
func resyncIsSpread(s *storyRun) {
	const pods, period = 1000, time.Minute
	s.fill(pods)
	_, l := s.synced(Options{Resync: period})
	s.elapse(period)
	l.takeEvents()
	begin := time.Now()
	s.elapse(3 * period)
	tenths := map[int]int{}
	for _, e := range l.takeEvents() {
		if e.resynced {
			tenths[int(e.at.Sub(begin)/(period/10))]++
		}
	}
	for tenth, n := range tenths {
		if n > 2*pods/10 {
			s.failf("%d of %d objects were resynced in one tenth (%d) of the period", n, pods, tenth)
		}
	}
	if len(tenths) < 25 {
		s.failf("resyncs occurred in %d tenths of 30", len(tenths))
	}
}

// resyncAmongChanges makes changes while resyncs run. The listener checks every call.
func resyncAmongChanges(s *storyRun) {
	s.fill(50)
	inf, l := s.synced(Options{Resync: 10 * time.Second})
	for i := range 200 {
		key := nth(i % 50)
		if i%7 == 3 {
			if _, there := s.server.ResourceVersions()[key]; there {
				s.server.Delete(key)
			}
		} else {
			s.server.Put(pod(key))
		}
		time.Sleep(370 * time.Millisecond)
	}
	inf.current(time.Second)
	if len(rounds(l.takeEvents())) == 0 {
		s.failf("no resync came")
	}
}
