package informertest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

var finals = []Story{
	{Name: "DeletedFinalState", Contract: "a deletion that is watched is told with the state that the server says the object had at its end",
		play: deletedFinalState},
}

// deletedFinalState: it differs from the last that was told before.
func deletedFinalState(s *stage) {
	s.fill(3)
	inf := s.informer(Options{})
	gone := make(chan *corev1.Pod, 10)
	for range 2 {
		if _, err := inf.Handle(Handler{Deleted: func(p *corev1.Pod) { gone <- p }}, HandlerOptions{}); err != nil {
			s.failf("add a handler: %v", err)
		}
	}
	inf.synced()
	rv := s.server.DeleteAs(nth(1), func(p *corev1.Pod) { p.Status.Message = "at its end" })
	inf.current(time.Second)
	for range 2 {
		select {
		case p := <-gone:
			if p.ResourceVersion != rv || p.Status.Message != "at its end" {
				s.failf("told of resourceVersion %s with the message %q; want %s", p.ResourceVersion, p.Status.Message, rv)
			}
		default:
			s.failf("a handler was not told")
		}
	}
}
