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
	List       Op = iota + 1 // a GET of the collection, or of a namespace's pods; each page counts
	Watch                    // a GET of the collection with watch=true
	Version                  // /version
	Namespaces               // a GET of the namespaces, which are those of the pods
	Unknown                  // anything else, answered with 404
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

// Answer is an exceptional answer to requests. The zero value is the normal answer.
type Answer struct {
	// Delay is the time before the answer starts.
	Delay time.Duration
	// Hang sends no answer until the client gives up.
	Hang bool
	// Status is the answer, with its code, and its details.retryAfterSeconds as Retry-After.
	Status *metav1.Status
	// InStream answers 200 and sends Status in an ERROR event, as kube-apiserver does for a watch that
	// cannot start.
	InStream bool
	// Page answers 200 and a web page, like a proxy that requires a login.
	Page bool
	// End ends a WATCH with 200 and no event.
	End bool
	// Cut, between 0 and 1, breaks the connection after that share of a LIST's body, or after one
	// of the initial events of a WATCH.
	Cut float64
	// InitialOnly restricts the answer to WATCHes that request initial events, ResumeOnly to those
	// that do not. They do not affect LISTs.
	InitialOnly, ResumeOnly bool
	// Hold keeps back the last item of a LIST, or the bookmark that ends initial events, until the
	// channel is closed.
	Hold <-chan struct{}
	// Stall sends that many bytes of a LIST's body, and then nothing more on an open connection. For a
	// WATCH with initial events it sends nothing of the body.
	Stall *int
	// NoBookmarks omits every bookmark of a WATCH, including the one that ends initial events.
	NoBookmarks bool
}

// rule is an answer for the next requests.
type rule struct {
	answer Answer
	times  int
}

// hammering is the number of requests between two calls of ForgetRequests after which the server
// stops answering: an informer that sends requests without a pause would let no time pass in a
// bubble.
const hammering = 2000

// Always is an unlimited number of times.
const Always = int(^uint(0) >> 1)

// Answer sets the answer to the next requests of an operation, the given number of times. It
// replaces an earlier answer for the operation.
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

// note logs a request and returns its answer.
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

// Requests returns a copy of the log since the start or ForgetRequests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Hammered reports whether the server received too many requests and stopped answering.
func (s *Server) Hammered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hammered
}

// Count returns the number of Requests of an operation.
func (s *Server) Count(op Op) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Op == op {
			n++
		}
	}
	return n
}

// ForgetRequests empties the log.
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

// NotFound returns status 404, for the resource.
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

// TooLarge returns status 504: the server has not reached the requested resourceVersion.
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

// EndWatches ends all watches, as their deadline does.
func (s *Server) EndWatches() { s.toWatchers(frame{last: ended}) }

// BreakWatches breaks the connections of all watches.
func (s *Server) BreakWatches() { s.toWatchers(frame{last: broken}) }

// BreakWatchesMidEvent sends half of an update of a pod and breaks the connections of all watches.
// The pod must exist; it does not change.
func (s *Server) BreakWatchesMidEvent(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.send(frame{change: change{"MODIFIED", s.objects[key]}, last: midEvent})
	}
}

// FailWatches sends an ERROR event on all watches and ends them.
func (s *Server) FailWatches(status *metav1.Status) { s.toWatchers(frame{status: status, last: ended}) }

// Repeat sends a pod's current state again, on all watches, as an event of type ADDED or MODIFIED.
func (s *Server) Repeat(eventType, key string) { s.Inject(eventType, s.Pod(key)) }

// Inject sends an event of a pod on all open watches. It does not change the server's state.
func (s *Server) Inject(eventType string, pod *corev1.Pod) {
	s.toWatchers(frame{change: change{eventType, &entry{key: pod.Namespace + "/" + pod.Name, pod: pod}}})
}

// Garble sends an event with a valid frame on all watches whose object is not a pod.
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
