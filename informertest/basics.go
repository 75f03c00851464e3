package informertest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

var basics = []Story{
	{Name: "FirstList", Contract: "each object that exists is added once, as initial, before HasSynced", play: firstList},
	{Name: "EmptyList", Contract: "an informer syncs with an empty list, and calls no handler", play: emptyList},
	{Name: "ListKeysInAnyOrder", Contract: "the keys of a list may come in any order", play: listKeysInAnyOrder},
	{Name: "AddUpdateDelete", Contract: "a handler receives each change once, after the informer has stored it", play: addUpdateDelete},
	{Name: "BurstInOrder", Contract: "a handler that keeps up receives every change, in order", play: burstInOrder},
	{Name: "NotSyncedHalfWay", Contract: "nothing reports a sync before the first list is complete", play: notSyncedHalfWay},
	{Name: "StoredBeforeDelivered", Contract: "the informer stores the version that a handler receives, or a newer one, and the handler can read it", play: storedBeforeDelivered},
	{Name: "RunTwice", Contract: "a second Run returns, and does not affect the first", play: runTwice},
	{Name: "StopBeforeSync", Contract: "an informer whose first list receives no response stops immediately", play: stopBeforeSync},
	{Name: "StopInAnswer", Contract: "an informer whose first list stalls at any byte stops immediately", play: stopInAnswer},
	{Name: "StopInBackoff", Contract: "an informer in backoff stops immediately", play: stopInBackoff},
	{Name: "StopOneOfTwo", Contract: "stopping one informer ends its requests, and no requests of another informer",
		Issue: "kubernetes 79610", play: stopOneOfTwo},
}

// firstList creates pods before the informer starts. The handler must receive each pod once, as an
// initial addition, before its HasSynced is true.
func firstList(s *storyRun) {
	s.fill(300)
	inf, l := s.synced(Options{})
	inf.current(time.Second)
	events := l.takeEvents()
	if len(events) != 300 {
		s.failf("%d calls for 300 pods", len(events))
	}
	for _, e := range events {
		if e.verb != added || !e.initial {
			s.failf("%v; want an initial addition", e)
		}
	}
	p, ok := inf.Get(nth(7))
	if !ok || p.Name != "pod-00007" || p.Spec.Containers[0].Image != "image" {
		s.failf("Get(%s) = %v, %v", nth(7), p, ok)
	}
	if p, ok := inf.Get("ns/none"); ok {
		s.failf("Get of a pod that does not exist = %v", p)
	}
}

// emptyList starts an informer on a server without pods. The informer must sync. A pod is created
// later. Handlers must receive it in an addition that is not initial.
func emptyList(s *storyRun) {
	inf, l := s.synced(Options{})
	l.getsOnly(0)
	s.server.Put(pod("ns/a"))
	inf.current(time.Second)
	if events := l.takeEvents(); len(events) != 1 || events[0].initial {
		s.failf("received %v; want one addition that is not initial", events)
	}
}

// listKeysInAnyOrder makes the server send the JSON keys of its lists in every order, without pods
// and with three pods. The informer must sync and store all pods.
func listKeysInAnyOrder(s *storyRun) {
	for n := range 2 {
		eachOrder([]string{"apiVersion", "items", "kind", "metadata"}, 0, func(keys []string) {
			s.server.SetListKeys(keys...)
			inf := s.informer(Options{})
			inf.synced()
			inf.current(time.Second)
			if got := len(inf.ResourceVersions()); got != 3*n {
				s.failf("%d pods of %d in a list of %q", got, 3*n, keys)
			}
			inf.stop()
		})
		s.fill(3)
	}
}

// eachOrder calls f with every permutation of keys that does not move the first n keys. Each call
// receives a new slice, which f may keep.
func eachOrder(keys []string, n int, f func([]string)) {
	if n == len(keys) {
		f(slices.Clone(keys))
	}
	for i := n; i < len(keys); i++ {
		keys[n], keys[i] = keys[i], keys[n]
		eachOrder(keys, n+1, f)
		keys[n], keys[i] = keys[i], keys[n]
	}
}

// addUpdateDelete makes several changes, one after another. For each change, the handler must
// receive exactly one call of the right type.
func addUpdateDelete(s *storyRun) {
	inf, l := s.follower(3)
	steps := []struct {
		do   func()
		want verb
	}{
		{func() { s.server.Put(pod("ns/new")) }, added},
		{func() { s.server.Put(pod("ns/new", onNode("other"))) }, updated},
		{func() { s.server.Put(pod(nth(0), onNode("other"))) }, updated},
		{func() { s.server.Delete("ns/new") }, deleted},
		{func() { s.server.Put(pod("ns/new")) }, added},
		{func() { s.server.Delete(nth(1)) }, deleted},
	}
	for i, step := range steps {
		step.do()
		inf.current(time.Second)
		events := l.takeEvents()
		if len(events) != 1 || events[0].verb != step.want || events[0].initial {
			s.failf("step %d: received %v; want one %s", i, events, step.want)
		}
	}
}

// burstInOrder makes 500 changes at the same time. A handler that is not slow must receive all of
// them in the server's order.
func burstInOrder(s *storyRun) {
	inf, l := s.follower(5)
	var want []string
	for i := range 500 {
		want = append(want, s.server.Put(pod(nth(i%5), onNode("n"+nth(i)))))
	}
	inf.current(10 * time.Second)
	var got []string
	for _, e := range l.takeEvents() {
		got = append(got, e.rv)
	}
	if !slices.Equal(got, want) {
		s.failf("received %d changes of 500, or in another order", len(got))
	}
}

// notSyncedHalfWay delays the end of the first list: the last item of a LIST, or the bookmark that
// ends initial events. HasSynced must be false before the end.
func notSyncedHalfWay(s *storyRun) {
	s.fill(20)
	hold := make(chan struct{})
	s.answer(Always, Answer{Hold: hold})
	inf, l := s.started(Options{})
	s.elapse(5 * time.Second)
	l.notSynced("synced before the list was complete")
	close(hold)
	s.eventually(time.Minute, "HasSynced after the list is complete", func() bool { return inf.HasSynced() && l.HasSynced() })
	inf.current(time.Second)
}

// storedBeforeDelivered makes the handler read the changed object from the informer, with Get and
// with ResourceVersions. Except in a deletion, both must return the version that the handler
// received, or a newer one.
func storedBeforeDelivered(s *storyRun) {
	s.fill(20)
	inf := s.informer(Options{})
	inf.listen(HandlerOptions{}, calling(func(e event) {
		held, ok := inf.ResourceVersions()[e.key]
		if e.verb != deleted && (!ok || resourceversion.Number(held) < resourceversion.Number(e.rv)) {
			s.errorf("%v, but %q is stored", e, held)
		}
		p, ok := inf.Get(e.key)
		if e.verb != deleted && (!ok || resourceversion.Number(p.ResourceVersion) < resourceversion.Number(e.rv)) {
			s.errorf("%v, but Get gives %v", e, ok)
		}
	}))
	inf.synced()
	for i := range 20 {
		s.server.Put(pod(nth(i), onNode("other")))
	}
	inf.current(time.Second)
}

// runTwice calls Run again while the first call runs. The second call must return, and the informer
// must stay current.
func runTwice(s *storyRun) {
	s.fill(3)
	inf, l := s.synced(Options{})
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer close(done)
		inf.Run(ctx)
	}()
	s.eventually(10*time.Second, "the second Run returning", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	s.server.Put(pod("ns/new"))
	inf.current(time.Second)
	l.getsOnly(4)
}

// stopBeforeSync stops an informer whose first request the server receives but does not answer. The
// informer must stop within a second and not have synced.
func stopBeforeSync(s *storyRun) {
	s.answer(Always, Answer{Hang: true})
	inf, l := s.started(Options{})
	s.elapse(3 * time.Second)
	inf.cancel()
	if !inf.stopped(time.Second) {
		s.failf("not stopped within a second")
	}
	l.notSynced("synced because it was stopped")
}

// stopInAnswer stops the informer while an answer stalls after n bytes. The informer must stop
// within a second. The story tries every n up to 150, because the first bytes contain the
// apiVersion and the kind. Beyond that it tries every fiftieth n up to 650, at which the answer
// stalls among the items.
func stopInAnswer(s *storyRun) {
	s.fill(20)
	for n := range 700 {
		if n > 150 && n%50 != 0 {
			continue
		}
		s.answer(Always, Answer{Stall: &n})
		inf := s.informer(Options{})
		inf.run()
		s.elapse(time.Second)
		inf.cancel()
		if !inf.stopped(time.Second) {
			s.failf("not stopped within a second, after %d bytes of the response", n)
		}
	}
}

// stopInBackoff stops five informers after the server was down for three minutes, so that their
// backoffs are long. Each informer must stop within a second, and not only when its backoff ends.
// There are five informers because the backoffs are random: a single one might end at the moment of
// the stop.
func stopInBackoff(s *storyRun) {
	s.server.SetDown(true)
	var all []*storyInformer
	for range 5 {
		inf, _ := s.started(Options{})
		all = append(all, inf)
	}
	s.elapse(3 * time.Minute)
	for _, inf := range all {
		inf.cancel()
	}
	for _, inf := range all {
		if !inf.stopped(time.Second) {
			s.failf("not stopped within a second")
		}
	}
}

// stopOneOfTwo runs two informers on one server and stops one of them. The other informer must
// still receive changes.
func stopOneOfTwo(s *storyRun) {
	s.fill(3)
	one, two := s.informer(Options{}), s.informer(Options{})
	l1, l2 := one.listen(HandlerOptions{}), two.listen(HandlerOptions{})
	one.synced()
	two.synced()
	one.stop()
	s.eventually(time.Second, "the watch of the stopped informer ending", func() bool { return s.server.Watches() == 1 })
	before := l1.count()
	s.server.Put(pod("ns/new"))
	two.current(time.Second)
	if l1.count() != before {
		s.failf("the stopped informer reported something")
	}
	if !maps.Equal(l2.view(), s.server.ResourceVersions()) {
		s.failf("the other informer missed a change")
	}
}
