package proxy

import (
	"sync/atomic"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// auditRetry is how often a request is answered although the last event could not be recorded, to
// find out whether the log can be written again.
const auditRetry = time.Second

// checkedSink knows whether the last event was recorded. A policy may omit the stage
// RequestReceived, as Kubernetes' own example does. Then nothing else tells that the log cannot be
// written before a request has been answered. It is safe for concurrent use.
type checkedSink struct {
	audit.Backend
	// failed is when the last event was not recorded, or the last request was let try, in nanoseconds
	// since 1970. 0: the last event was recorded.
	failed atomic.Int64
}

// ProcessEvents implements [audit.Sink].
func (s *checkedSink) ProcessEvents(events ...*auditinternal.Event) bool {
	ok := s.Backend.ProcessEvents(events...)
	if ok {
		s.failed.Store(0)
	} else {
		s.failed.Store(time.Now().UnixNano())
	}
	return ok
}

// mayAnswer reports whether a request may be answered of which nothing is recorded before.
func (s *checkedSink) mayAnswer() bool {
	last, now := s.failed.Load(), time.Now().UnixNano()
	return last == 0 || now-last >= int64(auditRetry) && s.failed.CompareAndSwap(last, now)
}
