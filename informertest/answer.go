package informertest

import (
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Op is the operation of a request.
type Op uint8

const (
	List       Op = iota + 1 // a GET of the pods of one or all namespaces; one List per page
	Watch                    // a GET of all pods with watch=true
	Version                  // a GET of /version
	Namespaces               // a GET of the namespaces that have pods
	Unknown                  // anything else; the server answers 404
)

var opNames = [...]string{List: "LIST", Watch: "WATCH", Version: "VERSION", Namespaces: "NAMESPACES", Unknown: "UNKNOWN"}

// String returns "LIST", "WATCH", "VERSION", "NAMESPACES" or "UNKNOWN", and "NONE" for the zero
// value.
func (o Op) String() string {
	if o < List || o > Unknown {
		return "NONE"
	}
	return opNames[o]
}

// Request is an entry of the server's log.
type Request struct {
	Op    Op
	Path  string
	Query url.Values
	At    time.Time
}

// Answer describes an exceptional answer to a request. The zero value is the normal answer.
type Answer struct {
	// Delay is the time before the answer starts.
	Delay time.Duration
	// Hang sends no answer; it waits until the client gives up.
	Hang bool
	// Status is sent as the answer, with its code as the HTTP status code, and with its
	// details.retryAfterSeconds as the header Retry-After.
	Status *metav1.Status
	// InStream answers 200 and sends Status in an ERROR event, as kube-apiserver does for a WATCH that
	// it cannot start.
	InStream bool
	// Page answers 200 with a web page, as a proxy that requires a login does.
	Page bool
	// End answers a WATCH with 200, sends no event and ends the WATCH.
	End bool
	// Cut is a share, between 0 and 1, of the body of a LIST or of the initial events of a WATCH. The
	// server sends this share and then breaks the connection. 0 means that the server does not break
	// it.
	Cut float64
	// InitialOnly restricts the answer to WATCHes that request initial events. ResumeOnly restricts it
	// to WATCHes without initial events. Neither affects LISTs.
	InitialOnly, ResumeOnly bool
	// Hold delays the last item of a LIST, or the bookmark that ends initial events, until the channel
	// is closed.
	Hold <-chan struct{}
	// Stall is the number of bytes of a LIST's body after which the server sends nothing more and
	// keeps the connection open. For a WATCH with initial events, the server sends no byte of the
	// body. nil means no stall.
	Stall *int
	// NoBookmarks omits every bookmark of a WATCH, including the one that ends initial events.
	NoBookmarks bool
}

// rule sets the answer to the next requests of one operation.
type rule struct {
	answer Answer
	times  int
}

// hammering is the number of requests after which the server stops answering. ForgetRequests resets
// the count. Without this limit, the time in the synctest bubble would not advance while an
// informer sends requests without a pause.
const hammering = 2000

// Always makes Answer apply to an unlimited number of requests.
const Always = int(^uint(0) >> 1)

// Answer makes the server answer the next requests of an operation with a. times is the number of
// these requests. A second call for the operation replaces the first.
func (s *Server) Answer(op Op, times int, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules[op] = &rule{a, times}
}

// Normal removes all answers that Answer has set.
func (s *Server) Normal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rules)
}

// note logs a request and returns the answer that the server must give.
func (s *Server) note(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= hammering {
		s.hammered = true
		return Answer{Hang: true}
	}
	s.requests = append(s.requests, r)
	rule, ok := s.rules[r.Op]
	if !ok || rule.times == 0 {
		return Answer{}
	}
	if initial := r.Query.Get("sendInitialEvents") == "true"; r.Op == Watch &&
		(initial && rule.answer.ResumeOnly || !initial && rule.answer.InitialOnly) {
		return Answer{}
	}
	if rule.times != Always {
		rule.times--
	}
	return rule.answer
}

// Requests returns a copy of the request log, which starts at the last ForgetRequests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Hammered reports whether the server has ever stopped answering, because it received more than
// 2000 requests without a ForgetRequests between them.
func (s *Server) Hammered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hammered
}

// Count returns how many of the logged requests have the given operation.
func (s *Server) Count(op Op) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Op == op {
			n++
		}
	}
	return n
}

// ForgetRequests empties the request log.
func (s *Server) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// Gone returns status 410 Expired: the resourceVersion is too old.
func Gone() *metav1.Status {
	return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
}

// Forbidden returns status 403.
func Forbidden() *metav1.Status {
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, `pods is forbidden: User "stranger" cannot list resource "pods"`)
}

// Unauthorized returns status 401.
func Unauthorized() *metav1.Status {
	return failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

// NotFound returns status 404 for a missing resource.
func NotFound() *metav1.Status {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

// Internal returns status 500.
func Internal() *metav1.Status {
	return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: leader changed")
}

// TooManyRequests returns status 429 with a Retry-After.
func TooManyRequests(retryAfter time.Duration) *metav1.Status {
	s := failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "storage is (re)initializing")
	s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(retryAfter / time.Second)}
	return s
}

// TooLarge returns the status 504 of a server that has not reached the requested resourceVersion.
func TooLarge() *metav1.Status {
	s := failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version")
	s.Details = &metav1.StatusDetails{
		RetryAfterSeconds: 1,
		Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
	}
	return s
}

// Invalid returns status 422.
func Invalid(message string) *metav1.Status {
	return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, message)
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

// EndWatches ends all watches cleanly, as if their deadlines had passed.
func (s *Server) EndWatches() { s.toWatchers(frame{last: ended}) }

// BreakWatches breaks the connections of all watches.
func (s *Server) BreakWatches() { s.toWatchers(frame{last: broken}) }

// BreakWatchesMidEvent sends the first half of an event on all watches, and breaks their
// connections. The event is a MODIFIED event with the current version of the pod that key names.
// This pod must exist; BreakWatchesMidEvent does not change it.
func (s *Server) BreakWatchesMidEvent(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.send(frame{change: change{"MODIFIED", s.objects[key]}, last: midEvent})
	}
}

// FailWatches sends status in an ERROR event on all watches and ends them.
func (s *Server) FailWatches(status *metav1.Status) { s.toWatchers(frame{status: status, last: ended}) }

// Repeat sends a pod's current state again on all watches, in an event of the given type, "ADDED"
// or "MODIFIED".
func (s *Server) Repeat(eventType, key string) { s.Inject(eventType, s.Pod(key)) }

// Inject sends an event with the given type and pod on all open watches. It does not change the
// server's state.
func (s *Server) Inject(eventType string, pod *corev1.Pod) {
	s.toWatchers(frame{change: change{eventType, &entry{key: pod.Namespace + "/" + pod.Name, pod: pod}}})
}

// Garble sends an event on all watches. The event's frame is valid, but the object in it cannot be
// decoded as a pod.
func (s *Server) Garble() { s.toWatchers(frame{garbled: true}) }

// Bookmark sends a bookmark with the server's resourceVersion on all watches.
func (s *Server) Bookmark() { s.toWatchers(frame{bookmark: true}) }

// Watches returns the number of open watches.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watchers)
}

func (s *Server) toWatchers(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.bookmark {
		f.change = s.bookmark(false)
	}
	for w := range s.watchers {
		w.send(f)
	}
}
