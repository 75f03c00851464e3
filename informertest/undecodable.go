package informertest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

var undecodables = []Story{
	{Name: "UndecodableThenGood", Contract: "after a version that cannot be decoded, a handler receives the next version, with the last version that it received as the old one",
		play: undecodableThenGood},
	{Name: "UndecodableThenDeleted", Contract: "a handler receives the deletion of an object whose last version cannot be decoded", play: undecodableThenDeleted},
	{Name: "UndecodableIsAlone", Contract: "one object that cannot be decoded does not affect others: they are stored, found, indexed and delivered", play: undecodableIsAlone},
}

// undecodableThenGood updates a pod to a version that cannot be decoded, and then to a valid
// version. In a second round, two versions in a row cannot be decoded. The handler must receive one
// update in each round.
func undecodableThenGood(s *storyRun) {
	inf, l := s.follower(3)
	for n := range 2 {
		was := l.view()[nth(1)]
		for range n + 1 {
			s.server.Spoil(nth(1))
			s.elapse(5 * time.Second)
		}
		is := s.server.Put(pod(nth(1), onNode("other")))
		inf.current(2 * time.Minute)
		events := changes(l.takeEvents())
		if len(events) != 1 || events[0].verb != updated || events[0].old != was || events[0].rv != is {
			s.failf("received %v; want one update from %s to %s", events, was, is)
		}
		if p, ok := inf.Get(nth(1)); !ok || p.Spec.NodeName != "other" {
			s.failf("Get gives %v, %v", p, ok)
		}
	}
}

// undecodableThenDeleted deletes a pod whose last version cannot be decoded. The object in OnDelete
// must have at least the pod's namespace, name and uid.
func undecodableThenDeleted(s *storyRun) {
	s.fill(3)
	inf := s.informer(Options{})
	l := inf.listen(HandlerOptions{})
	gone := make(chan *corev1.Pod, 1)
	// This handler receives only deletions.
	inf.handle(Handler{Deleted: func(p *corev1.Pod) { gone <- p }}, HandlerOptions{})
	inf.synced()
	l.takeEvents()
	uid := s.server.Pod(nth(1)).UID
	s.server.Spoil(nth(1))
	s.elapse(5 * time.Second)
	s.server.Delete(nth(1))
	inf.current(2 * time.Minute)
	events := changes(l.takeEvents())
	if len(events) != 1 || events[0].verb != deleted || events[0].key != nth(1) {
		s.failf("received %v; want one deletion", events)
	}
	select {
	case p := <-gone:
		if p.Namespace+"/"+p.Name != nth(1) || p.UID != uid {
			s.failf("a handler of deletions received %s/%s with uid %s", p.Namespace, p.Name, p.UID)
		}
	default:
		s.failf("a handler of only deletions received nothing")
	}
}

// undecodableIsAlone starts with one pod that cannot be decoded, and later spoils a second one. The
// informer must store, index and deliver the other pods.
func undecodableIsAlone(s *storyRun) {
	s.fill(5)
	s.server.Spoil(nth(0))
	inf, l := s.synced(Options{Indexes: map[string]IndexFunc{"node": byNode}})
	inf.expectIndex("node", "node-1", nth(1), nth(2), nth(3), nth(4))
	s.server.Spoil(nth(1))
	s.server.Put(pod("ns/new"))
	s.eventually(time.Minute, "a handler receives another object", func() bool { _, ok := l.view()["ns/new"]; return ok })
	inf.expectIndex("node", "node-1", nth(2), nth(3), nth(4), "ns/new")
	if _, ok := inf.Get(nth(2)); !ok {
		s.failf("another object is not stored any more")
	}
	l.takeEvents()
	s.server.Put(pod(nth(0)))
	s.server.Put(pod(nth(1)))
	inf.current(time.Minute)
	if events := changes(l.takeEvents()); len(events) != 2 || events[0].verb != added || events[1].verb != updated {
		s.failf("received %v; want an addition and an update", events)
	}
	inf.expectIndex("node", "node-1", nth(0), nth(1), nth(2), nth(3), nth(4), "ns/new")
}
