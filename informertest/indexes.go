package informertest

import (
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var indexes = []Story{
	{Name: "IndexFromStart", Contract: "an index returns the objects for which its function returns the value, and follows changes", play: indexFromStart},
	{Name: "IndexAddedLater", Contract: "an index that is added while the informer runs contains the objects that are already stored", play: indexAddedLater},
	{Name: "IndexNameTaken", Contract: "a second index with the same name is an error, and changes nothing", play: indexNameTaken},
	{Name: "BlockedIndexFunction", Contract: "a blocked index function delays no handler",
		Issue: "kubernetes 130767", play: blockedIndexFunction},
}

func byNode(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }

// expectIndex waits until an index returns exactly the keys in want for a value, in any order. It
// aborts the story if the index does not return these keys within a second. It sorts want.
func (i *storyInformer) expectIndex(name, value string, want ...string) {
	i.s.eventually(time.Second, "the index returns the expected objects", func() bool {
		got, err := i.ByIndex(name, value)
		if err != nil {
			i.s.failf("index %s: %v", name, err)
		}
		slices.Sort(got)
		slices.Sort(want)
		return slices.Equal(got, want)
	})
}

// indexFromStart checks an index that the informer has from the start: after changes that move a
// pod to another value, after a deletion, and for a value without pods.
func indexFromStart(s *storyRun) {
	s.server.Put(pod("ns/a"))
	s.server.Put(pod("ns/b", onNode("node-2")))
	inf := s.informer(Options{Indexes: map[string]IndexFunc{"node": byNode}})
	inf.synced()
	inf.expectIndex("node", "node-1", "ns/a")
	s.server.Put(pod("ns/c"))
	s.server.Put(pod("ns/a", onNode("node-2")))
	inf.current(time.Second)
	inf.expectIndex("node", "node-1", "ns/c")
	inf.expectIndex("node", "node-2", "ns/a", "ns/b")
	s.server.Delete("ns/b")
	inf.current(time.Second)
	inf.expectIndex("node", "node-2", "ns/a")
	inf.expectIndex("node", "node-3")
}

// indexAddedLater adds an index after the sync. Its function returns several values for some pods,
// and none for one pod. The index must contain the pods that are already stored, and must drop a
// pod that is deleted later.
func indexAddedLater(s *storyRun) {
	s.fill(3)
	inf := s.informer(Options{})
	inf.synced()
	both := func(p *corev1.Pod) []string {
		if p.Name == "pod-00000" {
			return nil
		}
		return []string{p.Name, "all"}
	}
	if err := inf.AddIndex("both", both); err != nil {
		s.failf("add an index: %v", err)
	}
	inf.expectIndex("both", "all", nth(1), nth(2))
	inf.expectIndex("both", "pod-00002", nth(2))
	s.server.Delete(nth(1))
	inf.current(time.Second)
	inf.expectIndex("both", "all", nth(2))
	if _, err := inf.ByIndex("none", "x"); err == nil {
		s.failf("an index that does not exist returned no error")
	}
}

// indexNameTaken adds a second index with the name of the first. AddIndex must return an error, and
// the first index must remain.
func indexNameTaken(s *storyRun) {
	s.fill(1)
	inf := s.informer(Options{Indexes: map[string]IndexFunc{"node": byNode}})
	inf.synced()
	if err := inf.AddIndex("node", func(*corev1.Pod) []string { return []string{"other"} }); err == nil {
		s.failf("a second index with the same name was accepted")
	}
	inf.expectIndex("node", "node-1", nth(0))
}

// blockedIndexFunction reads an index whose function blocks for one object. Only the caller that
// reads the index may wait for the function: the handler must receive a change of another object.
func blockedIndexFunction(s *storyRun) {
	s.fill(5)
	gate := make(chan struct{})
	var entered atomic.Bool
	inf := s.informer(Options{Indexes: map[string]IndexFunc{"slow": func(p *corev1.Pod) []string {
		if p.Spec.NodeName == "slow" {
			entered.Store(true)
			<-gate
		}
		return []string{p.Spec.NodeName}
	}}})
	l := inf.listen(HandlerOptions{})
	inf.synced()
	s.server.Put(pod(nth(0), onNode("slow")))
	s.elapse(time.Second)
	read := make(chan struct{})
	// If the informer has already called the index function for the change, it may hold a lock now. No
	// goroutine of the story may wait for that lock, because time does not advance in a bubble while a
	// goroutine waits for a lock.
	if entered.Load() {
		close(read)
	} else {
		go func() {
			defer close(read)
			if _, err := inf.ByIndex("slow", "node-1"); err != nil {
				s.errorf("index: %v", err)
			}
		}()
	}
	time.Sleep(time.Second)
	s.server.Put(pod(nth(1), onNode("other")))
	delivered := s.becomes(10*time.Second, func() bool { return l.knows(s.server) })
	close(gate)
	<-read
	if !entered.Load() {
		s.errorf("the index function was never called")
	}
	if !delivered {
		s.failf("a change of another object was not reported within 10s while an index function blocked")
	}
}
