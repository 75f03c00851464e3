package informertest

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var handlers = []Story{
	{Name: "LateHandler", Contract: "a handler that is added late receives the whole state as initial additions, and then changes",
		play: lateHandler},
	{Name: "HandlerDuringFirstList", Contract: "a handler that is added during the first list receives each object once",
		play: handlerDuringFirstList},
	{Name: "HandlerSyncIsItsOwn", Contract: "a handler has synced when it has handled the state, independently of other handlers", play: handlerSyncIsItsOwn},
	{Name: "ManyHandlers", Contract: "every handler receives every change", play: manyHandlers},
	{Name: "RemovedHandler", Contract: "a removed handler is not called, and costs nothing", Issue: "kubernetes 142072",
		play: removedHandler},
	{Name: "HandlerRemovesItself", Contract: "a handler may remove itself during a call", play: handlerRemovesItself},
	{Name: "HandlerAddsHandler", Contract: "a handler may add another handler during a call", play: handlerAddsHandler},
	{Name: "HandlerAfterStop", Contract: "adding a handler after the stop is an error", play: handlerAfterStop},
	{Name: "SlowHandlerDelaysNoOther", Contract: "a blocked handler delays no other handler", Issue: "controller-runtime 3496",
		play: slowHandlerDelaysNoOther},
	{Name: "SlowHandlerKeepsTheWatch", Contract: "the informer reads the WATCH as fast as the server sends, even if handlers are slow, so that no server closes it",
		Issue: "kubernetes 97798, 121438, 129197", play: slowHandlerKeepsTheWatch},
	{Name: "BlockedHandlerCatchesUp", Contract: "a handler that was blocked receives the newest state; the old version is the last one that it received",
		play: blockedHandlerCatchesUp},
	{Name: "SyncedUnderChurn", Contract: "a handler that is slower than the changes has synced when it has handled the first state",
		play: syncedUnderChurn},
	{Name: "PanickingHandler", Contract: "a handler that panics receives the next call, and no other handler is affected", Fatal: true,
		play: panickingHandler},
	{Name: "DeletedFinalState", Contract: "OnDelete receives the object of the DELETED event",
		play: deletedFinalState},
}

// lateHandler adds a handler after some changes, so that the informer's state differs from the
// first list. The handler must receive this state in initial additions. An object is created later.
// The handler must receive it in an addition that is not initial.
func lateHandler(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	inf.synced()
	s.server.Put(pod("ns/new"))
	s.server.Put(pod(nth(0), onNode("other")))
	s.server.Delete(nth(1))
	inf.current(time.Second)
	l := inf.listen(HandlerOptions{})
	s.eventually(time.Second, "HasSynced of the late handler", l.HasSynced)
	inf.current(time.Second)
	for _, e := range l.takeEvents() {
		if e.verb != added || !e.initial {
			s.errorf("%v; want an initial addition: the object existed when the handler was added", e)
		}
	}
	s.server.Put(pod("ns/newer"))
	inf.current(time.Second)
	if events := l.takeEvents(); len(events) != 1 || events[0].initial {
		s.failf("received %v; want one addition that is not initial", events)
	}
}

// handlerDuringFirstList adds a handler while the server delays the last item of the first list.
// The handler must not sync before that item, and must receive each object once.
func handlerDuringFirstList(s *storyRun) {
	s.fill(50)
	hold := make(chan struct{})
	s.answer(Always, Answer{Hold: hold})
	inf := s.informer(Options{})
	inf.run()
	s.elapse(time.Second)
	l := inf.listen(HandlerOptions{})
	s.elapse(time.Second)
	if l.HasSynced() {
		s.failf("the handler has synced before the list is complete")
	}
	close(hold)
	l.syncs(time.Minute)
	l.getsOnly(50)
}

// handlerSyncIsItsOwn blocks one handler in its first call. The other handler must sync, and the
// blocked one must not.
func handlerSyncIsItsOwn(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	slow, quick := inf.listen(HandlerOptions{}, held), inf.listen(HandlerOptions{})
	inf.run()
	s.eventually(time.Minute, "HasSynced of the informer and the quick handler", func() bool {
		return inf.HasSynced() && quick.HasSynced()
	})
	s.elapse(time.Second)
	if slow.HasSynced() {
		s.failf("a handler has synced that is in its first call")
	}
	slow.letGo()
	s.eventually(time.Second, "HasSynced of the slow handler", slow.HasSynced)
	inf.current(time.Second)
}

// manyHandlers registers 20 handlers, which must all receive every change.
func manyHandlers(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	for range 20 {
		inf.listen(HandlerOptions{})
	}
	inf.synced()
	for i := range 10 {
		s.server.Put(pod(nth(i), onNode("other")))
	}
	s.server.Delete(nth(3))
	inf.current(time.Second)
}

// removedHandler adds and removes 200 handlers. No goroutine of these handlers may remain, and the
// informer must not call them after their removal.
func removedHandler(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	inf.synced()
	gone := []*listener{inf.passing()} // the first handler starts goroutines that all handlers share
	before := len(goroutines())
	for range 200 {
		gone = append(gone, inf.passing())
	}
	if after := len(goroutines()); after > before {
		s.errorf("%d goroutines are left of 200 removed handlers", after-before)
	}
	stay := inf.listen(HandlerOptions{})
	s.server.Put(pod("ns/new"))
	inf.current(time.Second)
	for _, l := range gone {
		if l.count() != 10 {
			s.failf("a removed handler received %d objects, not the 10 from before its removal", l.count())
		}
	}
	if !stay.knows(s.server) {
		s.failf("a handler that was not removed missed a change")
	}
}

// passing adds a listener, waits until it has received the state, and removes it.
func (i *storyInformer) passing() *listener {
	l := newListener(i)
	reg := i.handle(l.handler(), HandlerOptions{})
	i.s.settle()
	if err := reg.Remove(); err != nil {
		i.s.failf("remove a handler: %v", err)
	}
	i.s.settle()
	return l
}

// handlerRemovesItself makes a handler remove itself in its third call. The informer may make one
// more call that it has already prepared, as client-go does. It must not call the handler for later
// changes.
func handlerRemovesItself(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	var mu sync.Mutex
	var reg Registration
	var names []string
	removed := make(chan error, 1)
	handler := Handler{Added: func(p *corev1.Pod, _ bool) {
		mu.Lock()
		names = append(names, p.Name)
		self, n := reg, len(names)
		mu.Unlock()
		if n == 3 {
			removed <- self.Remove()
		}
	}}
	mu.Lock()
	reg = inf.handle(handler, HandlerOptions{})
	mu.Unlock()
	inf.synced()
	s.eventually(time.Minute, "Remove returning", func() bool { return len(removed) == 1 })
	if err := <-removed; err != nil {
		s.failf("remove a handler: %v", err)
	}
	s.server.Put(pod("ns/new"))
	inf.current(time.Second)
	s.elapse(time.Second)
	mu.Lock()
	defer mu.Unlock()
	if slices.Contains(names, "new") || len(names) > 4 {
		s.failf("received %v after its removal in the third call", names[3:])
	}
}

// handlerAddsHandler makes a handler register a second handler during a call after the sync. The
// second handler must receive the state and a later change.
func handlerAddsHandler(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	second := make(chan *listener, 1)
	inf.listen(HandlerOptions{}, calling(func(e event) {
		if e.key == "ns/new" {
			l := newListener(inf)
			var err error
			if l.Registration, err = inf.Handle(l.handler(), HandlerOptions{}); err != nil {
				s.errorf("add a handler: %v", err)
			}
			second <- l
		}
	}))
	inf.synced()
	s.server.Put(pod("ns/new"))
	s.eventually(10*time.Second, "Handle returning", func() bool { return len(second) == 1 })
	l := <-second
	s.eventually(time.Second, "the second handler receives the state", func() bool { return l.knows(s.server) })
	s.server.Put(pod("ns/newer"))
	s.eventually(time.Second, "the second handler receives a change", func() bool { return l.knows(s.server) })
}

// handlerAfterStop adds a handler after the informer has stopped. Handle must return an error, and
// the handler must not be called.
func handlerAfterStop(s *storyRun) {
	s.fill(3)
	inf := s.informer(Options{})
	inf.synced()
	inf.stop()
	var calls atomic.Int32
	_, err := inf.Handle(Handler{Added: func(*corev1.Pod, bool) { calls.Add(1) }}, HandlerOptions{})
	if err == nil {
		s.errorf("the handler was accepted")
	}
	s.elapse(time.Minute)
	if calls.Load() != 0 {
		s.errorf("it was called")
	}
}

// slowHandlerDelaysNoOther makes 200 changes while one handler is blocked. The other handler must
// receive each change within a second.
func slowHandlerDelaysNoOther(s *storyRun) {
	s.fill(10)
	inf := s.informer(Options{})
	slow := inf.listen(HandlerOptions{})
	quick := inf.listen(HandlerOptions{})
	inf.synced()
	slow.hold()
	for i := range 200 {
		s.server.Put(pod(nth(i%10), onNode(strconv.Itoa(i))))
		s.eventually(time.Second, "the quick handler receives changes while the slow one is blocked", func() bool {
			return quick.knows(s.server)
		})
	}
	slow.letGo()
	inf.current(time.Second)
}

// slowHandlerKeepsTheWatch makes 5000 changes while a handler is blocked. The informer must read
// and store all of them before the handler continues. The connection has no buffer, so the informer
// has read every event that the server has sent.
func slowHandlerKeepsTheWatch(s *storyRun) {
	s.fill(10)
	inf, slow := s.synced(Options{}, forgetful)
	slow.hold()
	before := s.server.Sent()
	for i := range 5000 {
		s.server.Put(pod(nth(i%10), onNode(strconv.Itoa(i))))
	}
	s.eventually(10*time.Second, "reading 5000 changes while a handler is blocked", func() bool {
		return s.server.Sent()-before >= 5000
	})
	if !maps.Equal(inf.ResourceVersions(), s.server.ResourceVersions()) {
		s.failf("the stored objects were not updated while a handler was blocked")
	}
	slow.letGo()
	inf.current(10 * time.Second)
}

// blockedHandlerCatchesUp updates, deletes and creates objects while a handler is blocked. One
// object is created and deleted in that time. When the handler continues, it must receive the
// newest state.
func blockedHandlerCatchesUp(s *storyRun) {
	s.fill(20)
	inf, slow := s.synced(Options{})
	slow.hold()
	for round := range 50 {
		for i := range 10 {
			s.server.Put(pod(nth(i), onNode(strconv.Itoa(round))))
		}
		s.server.Put(pod("ns/passing"))
		s.server.Delete("ns/passing")
	}
	s.server.Delete(nth(11))
	s.server.Delete(nth(12))
	s.server.Put(pod(nth(12), onNode("again")))
	s.server.Put(pod("ns/new"))
	s.elapse(10 * time.Second)
	slow.letGo()
	inf.current(10 * time.Second)
}

// panickingHandler adds a handler that panics in one call for the first list, and in one call for a
// later change. This handler and another handler must still receive every change.
func panickingHandler(s *storyRun) {
	s.fill(5)
	inf := s.informer(Options{})
	other := inf.listen(HandlerOptions{})
	unlucky := inf.listen(HandlerOptions{}, calling(func(e event) {
		if e.key == nth(2) {
			panic("a handler that panics")
		}
	}))
	inf.synced()
	s.server.Put(pod(nth(2), onNode("other")))
	s.server.Put(pod(nth(3), onNode("other")))
	inf.current(time.Minute)
	if !other.knows(s.server) || !unlucky.knows(s.server) {
		s.failf("changes were missed")
	}
}

// syncedUnderChurn changes two of 100 pods every 5 ms, while each call of the handler takes 10 ms.
// The handler must not sync before it has received every pod once, and must sync within a second
// after that.
func syncedUnderChurn(s *storyRun) {
	const pods, takes = 100, 10 * time.Millisecond
	s.fill(pods)
	inf := s.informer(Options{})
	first := map[string]bool{}
	var names time.Time // when the handler received the last new name
	slow := inf.listen(HandlerOptions{}, calling(func(e event) {
		time.Sleep(takes)
		if first[e.key] = true; len(first) == pods && names.IsZero() {
			names = time.Now()
		}
	}))
	inf.run()
	var synced time.Time
	for i, end := 0, time.Now().Add(10*time.Second); synced.IsZero() && time.Now().Before(end); i++ {
		s.server.Put(pod(nth(2*i%pods), onNode(strconv.Itoa(i))))
		s.server.Put(pod(nth((2*i+1)%pods), onNode(strconv.Itoa(i))))
		s.elapse(takes / 2)
		if slow.HasSynced() {
			synced = time.Now()
		}
	}
	s.eventually(time.Minute, "the handler receives each pod", func() bool { return slow.count() >= pods && !names.IsZero() })
	switch {
	case synced.IsZero():
		s.failf("HasSynced is false after ten seconds")
	case synced.Before(names):
		s.errorf("HasSynced is true, and the handler received %d of %d pods", len(first), pods)
	case synced.Sub(names) > time.Second:
		s.errorf("HasSynced follows %v after the last pod of the first list", synced.Sub(names))
	}
}

// deletedFinalState deletes a pod whose DELETED event has a state that no handler has received
// before. OnDelete of each handler must receive this state.
func deletedFinalState(s *storyRun) {
	s.fill(3)
	inf := s.informer(Options{})
	gone := make(chan *corev1.Pod, 10)
	for range 2 {
		inf.handle(Handler{Deleted: func(p *corev1.Pod) { gone <- p }}, HandlerOptions{})
	}
	inf.synced()
	rv := s.server.DeleteAs(nth(1), func(p *corev1.Pod) { p.Status.Message = "at its end" })
	inf.current(time.Second)
	for range 2 {
		select {
		case p := <-gone:
			if p.ResourceVersion != rv || p.Status.Message != "at its end" {
				s.failf("received resourceVersion %s with the message %q; want %s", p.ResourceVersion, p.Status.Message, rv)
			}
		default:
			s.failf("a handler received nothing")
		}
	}
}
