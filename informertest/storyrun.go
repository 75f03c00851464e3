package informertest

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storyRun is one run of a story: its server, its informers and its faults. Only the story's
// goroutine may call the methods, except errorf, which any goroutine may call.
type storyRun struct {
	rig    Rig
	server *Server
	start  time.Time

	informers []*storyInformer

	mu     sync.Mutex
	faults []fault
}

// fault describes a violation of the contract. A fault of rank 0 has aborted the story and is
// reported first.
type fault struct {
	rank int
	text string
}

// aborted is the value of the panic that aborts a story.
type aborted struct{}

// perform plays the story to its end or until it is aborted.
func (s *storyRun) perform(story Story) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(aborted); !ok {
				panic(v)
			}
		}
	}()
	story.play(s)
}

func (s *storyRun) end() {
	for _, i := range s.informers {
		i.release()
		i.cancel()
	}
	for _, i := range s.informers {
		if !i.stopped(endWithin) {
			s.errorf("Run has not returned %v after the stop", endWithin)
		}
	}
	if s.server.Hammered() {
		s.errorf("requests without a pause: more than %d", hammering)
	}
	s.server.Close()
}

// errorf records a fault. Any goroutine may call it.
func (s *storyRun) errorf(format string, args ...any) { s.note(1, format, args...) }

// failf records a fault and aborts the story.
func (s *storyRun) failf(format string, args ...any) {
	s.note(0, format, args...)
	panic(aborted{})
}

func (s *storyRun) note(rank int, format string, args ...any) {
	const enough = 20
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) < enough || rank == 0 {
		text := fmt.Sprintf("after %v: ", time.Since(s.start).Round(time.Millisecond)) + fmt.Sprintf(format, args...)
		s.faults = append(s.faults, fault{rank, text})
	}
}

// answer sets the answer to the next LISTs and to the next WATCHes; times is the number of LISTs,
// and also the number of WATCHes.
func (s *storyRun) answer(times int, a Answer) {
	s.server.Answer(List, times, a)
	s.server.Answer(Watch, times, a)
}

// settle blocks until every goroutine in the bubble is blocked.
func (s *storyRun) settle() { synctest.Wait() }

// elapse lets d pass, and then waits until every goroutine in the bubble is blocked.
func (s *storyRun) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// eventually waits until cond returns true, in the bubble's time. It aborts the story if that takes
// longer than the duration within.
func (s *storyRun) eventually(within time.Duration, what string, cond func() bool) {
	if !s.becomes(within, cond) {
		s.failf("not within %v: %s", within, what)
	}
}

// becomes waits until cond returns true, for at most the duration within. It reports whether cond
// returned true. The pauses between the calls of cond grow.
func (s *storyRun) becomes(within time.Duration, cond func() bool) bool {
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

type storyInformer struct {
	Informer
	s         *storyRun
	transform func(*corev1.Pod) // nil if there is none
	ctx       context.Context
	cancel    context.CancelFunc
	ended     chan struct{}
	ran       bool

	listeners []*listener
}

// informer creates an informer, which does not run yet.
func (s *storyRun) informer(o Options) *storyInformer {
	inf, err := s.rig.New(s.server.Config(), o)
	if err != nil {
		s.failf("create an informer: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &storyInformer{Informer: inf, s: s, transform: o.Transform, ctx: ctx, cancel: cancel, ended: make(chan struct{})}
	s.informers = append(s.informers, i)
	return i
}

func (s *storyRun) started(o Options) (*storyInformer, *listener) {
	inf := s.informer(o)
	l := inf.listen(HandlerOptions{})
	inf.run()
	return inf, l
}

// synced returns an informer with one listener, both of which have synced. The functions in more
// configure the listener first.
func (s *storyRun) synced(o Options, more ...func(*listener)) (*storyInformer, *listener) {
	inf := s.informer(o)
	l := inf.listen(HandlerOptions{}, more...)
	inf.synced()
	return inf, l
}

// follower creates n pods. It returns an informer that has synced, and a listener that has received
// all pods and whose recorded events are empty.
func (s *storyRun) follower(n int) (*storyInformer, *listener) {
	s.fill(n)
	inf, l := s.synced(Options{})
	l.takeEvents()
	return inf, l
}

// syncsWithin starts an informer with a listener. It aborts the story if the informer does not sync
// within the given time. It also aborts the story if the informer or the listener still lacks a
// part of the server's state a second later.
func (s *storyRun) syncsWithin(within time.Duration) *storyInformer {
	inf, _ := s.started(Options{})
	s.eventually(within, "HasSynced", inf.HasSynced)
	inf.current(time.Second)
	return inf
}

func (i *storyInformer) run() {
	i.ran = true
	go func() {
		defer close(i.ended)
		i.Run(i.ctx)
	}()
}

// synced runs the informer and waits until it and its handlers have synced.
func (i *storyInformer) synced() {
	i.run()
	i.s.eventually(time.Minute, "HasSynced", i.HasSynced)
	i.s.eventually(time.Minute, "HasSynced of each handler", func() bool {
		return !slices.ContainsFunc(i.listeners, func(l *listener) bool { return !l.HasSynced() })
	})
}

// stop stops the informer and waits until Run has returned.
func (i *storyInformer) stop() {
	i.cancel()
	if !i.stopped(endWithin) {
		i.s.failf("Run has not returned %v after the stop", endWithin)
	}
}

func (i *storyInformer) release() {
	for _, l := range i.listeners {
		l.letGo()
	}
}

func (i *storyInformer) stopped(within time.Duration) bool {
	if !i.ran {
		return true
	}
	select {
	case <-i.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// current waits until the informer and its listeners have the server's state.
func (i *storyInformer) current(within time.Duration) {
	i.s.eventually(within, "the informer stores the server's objects", func() bool {
		return maps.Equal(i.ResourceVersions(), i.s.server.ResourceVersions())
	})
	for _, l := range i.listeners {
		i.s.eventually(within, "each handler receives the server's objects", func() bool {
			return maps.Equal(l.view(), i.s.server.ResourceVersions())
		})
	}
}

// pod returns a small pod with the given key, changed by the functions in more.
func pod(key string, more ...func(*corev1.Pod)) *corev1.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
	for _, m := range more {
		m(p)
	}
	return p
}

func onNode(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

// fill creates n pods, ns/pod-00000 and so on, each changed by the functions in more.
func (s *storyRun) fill(n int, more ...func(*corev1.Pod)) {
	for i := range n {
		s.server.Put(pod(nth(i), more...))
	}
}

func nth(i int) string { return fmt.Sprintf("ns/pod-%05d", i) }

// heap collects garbage and returns the size of the live heap in bytes.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // data with finalizers or weak pointers is freed only after several collections
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
