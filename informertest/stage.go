package informertest

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stage is where a story is played: a server, the informers that it starts, and what went wrong.
// Only errorf may be called from other goroutines than the story's.
type stage struct {
	rig    Rig
	server *Server
	start  time.Time

	actors []*actor

	mu     sync.Mutex
	faults []fault
}

// fault is something that went wrong. The fault that aborted the story comes first.
type fault struct {
	rank int
	text string
}

// brokenOff is the value of the panic that aborts a story.
type brokenOff struct{}

// perform plays the story to its end or until it is aborted.
func (s *stage) perform(story Story) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(brokenOff); !ok {
				panic(v)
			}
		}
	}()
	story.play(s)
}

// end stops what the story left running.
func (s *stage) end() {
	for _, a := range s.actors {
		a.release()
		a.cancel()
	}
	for _, a := range s.actors {
		if !a.stopped(endWithin) {
			s.errorf("Run has not returned %v after the stop", endWithin)
		}
	}
	if s.server.Hammered() {
		s.errorf("the server was asked without a pause: more than %d requests", hammering)
	}
	s.server.Close()
}

// errorf reports a fault. It may be called from any goroutine.
func (s *stage) errorf(format string, args ...any) { s.note(1, format, args...) }

// failf reports a fault and aborts the story.
func (s *stage) failf(format string, args ...any) {
	s.note(0, format, args...)
	panic(brokenOff{})
}

func (s *stage) note(rank int, format string, args ...any) {
	const enough = 20
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < enough || rank == 0 {
		text := fmt.Sprintf("after %v: ", time.Since(s.start).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
		s.faults = append(s.faults, fault{rank, text})
	}
}

// settle blocks until every goroutine in the bubble is blocked.
func (s *stage) settle() { synctest.Wait() }

// elapse lets time pass.
func (s *stage) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// eventually waits for a condition in the bubble's time, and aborts the story if it does not become
// true.
func (s *stage) eventually(within time.Duration, what string, cond func() bool) {
	if !s.becomes(within, cond) {
		s.failf("not within %v: %s", within, what)
	}
}

// becomes reports whether a condition becomes true. It looks less often the longer that takes.
func (s *stage) becomes(within time.Duration, cond func() bool) bool {
	step := 20 * time.Millisecond
	for end := time.Now().Add(within); ; time.Sleep(step) {
		step = min(step+step/8, time.Second)
		synctest.Wait()
		if cond() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// actor is an informer of the story.
type actor struct {
	Informer
	s      *stage
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	ran    bool

	listeners []*listener
}

// informer returns a new informer that does not run yet.
func (s *stage) informer(o Options) *actor {
	inf, err := s.rig.New(s.server.Config(), o)
	if err != nil {
		s.failf("make an informer: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &actor{Informer: inf, s: s, ctx: ctx, cancel: cancel, ended: make(chan struct{})}
	s.actors = append(s.actors, a)
	return a
}

// follower returns an informer that has synced, and a listener that has been told of all there is.
func (s *stage) follower() (*actor, *listener) {
	inf := s.informer(Options{})
	l := inf.listen(HandlerOptions{})
	inf.synced()
	l.told()
	return inf, l
}

// syncsWithin starts an informer with a handler that must have synced by then, and is current soon.
func (s *stage) syncsWithin(within time.Duration) *actor {
	inf := s.informer(Options{})
	inf.listen(HandlerOptions{})
	inf.run()
	s.eventually(within, "HasSynced", inf.HasSynced)
	inf.current(time.Second)
	return inf
}

// run starts the informer.
func (a *actor) run() {
	a.ran = true
	go func() {
		defer close(a.ended)
		a.Run(a.ctx)
	}()
}

// synced runs the informer and waits until it and its handlers have synced.
func (a *actor) synced() {
	a.run()
	a.s.eventually(time.Minute, "HasSynced", a.HasSynced)
	a.s.eventually(time.Minute, "HasSynced of each handler", func() bool {
		for _, l := range a.listeners {
			if !l.HasSynced() {
				return false
			}
		}
		return true
	})
}

// stop ends the informer and waits for it.
func (a *actor) stop() {
	a.cancel()
	if !a.stopped(endWithin) {
		a.s.failf("Run has not returned %v after the stop", endWithin)
	}
}

// release unblocks handlers that are blocked.
func (a *actor) release() {
	for _, l := range a.listeners {
		l.letGo()
	}
}

func (a *actor) stopped(within time.Duration) bool {
	if !a.ran {
		return true
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-a.ended:
		return true
	case <-timer.C:
		return false
	}
}

// current waits until the informer and its listeners have what the server has.
func (a *actor) current(within time.Duration) {
	a.s.eventually(within, "holding what the server has", func() bool {
		return maps.Equal(a.ResourceVersions(), a.s.server.ResourceVersions())
	})
	for _, l := range a.listeners {
		a.s.eventually(within, "telling each handler what the server has", func() bool {
			return maps.Equal(l.view(), a.s.server.ResourceVersions())
		})
	}
}

// pod returns a small pod.
func pod(key string, more ...func(*corev1.Pod)) *corev1.Pod {
	namespace, name := splitKey(key)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
	for _, m := range more {
		m(p)
	}
	return p
}

func splitKey(key string) (namespace, name string) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:]
		}
	}
	return "", key
}

func onNode(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

// fill creates n pods: ns/pod-00000 and so on.
func (s *stage) fill(n int, more ...func(*corev1.Pod)) {
	for i := range n {
		s.server.Put(pod(nth(i), more...))
	}
}

func nth(i int) string { return fmt.Sprintf("ns/pod-%05d", i) }

// heap returns the number of bytes that are reachable now.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what finalizers and weak pointers held goes in a later round
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
