package informertest

import (
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Op is what a request is for.
type Op uint8

const (
	List    Op = iota + 1 // GET of the collection; each page is one
	Watch                 // the same with watch=true
	Version               // /version
	Unknown               // anything else, answered with 404
)

var opNames = [...]string{List: "LIST", Watch: "WATCH", Version: "VERSION", Unknown: "UNKNOWN"}

func (o Op) String() string {
	if o < List || o > Unknown {
		return "NONE"
	}
	return opNames[o]
}

// Request is one entry of the server's log.
type Request struct {
	Op    Op
	Path  string
	Query url.Values
	At    time.Time
}

// Answer is a way to answer that is not the usual one. The zero value is the usual one.
type Answer struct {
	// Delay is a wait before anything is answered.
	Delay time.Duration
	// Hang answers nothing, until the client gives up.
	Hang bool
	// Status is answered, with its code and its details.retryAfterSeconds as Retry-After.
	Status *metav1.Status
	// InStream puts Status into an ERROR event behind a 200, as kube-apiserver does for a watch that cannot begin.
	InStream bool
	// Page answers 200 and a web page, as proxies do that want somebody to log in.
	Page bool
	// End ends a WATCH with 200 and not one event.
	End bool
	// Cut, between 0 and 1, breaks the connection after that share of a LIST's body, or after one of the initial events of a
	// WATCH.
	Cut float64
	// InitialOnly leaves WATCHes alone that ask for no initial events; ResumeOnly those that do. Of LISTs they say nothing.
	InitialOnly, ResumeOnly bool
	// Hold keeps back the last item of a LIST, or the bookmark that ends initial events, until it is closed.
	Hold <-chan struct{}
	// Stall sends so many bytes of a LIST's body and then nothing more, on a connection that stands. Of the body of a WATCH with
	// initial events it sends nothing at all.
	Stall *int
	// NoBookmarks leaves out every bookmark of a WATCH, the one that ends initial events too.
	NoBookmarks bool
}

// rule is an answer for the next requests.
type rule struct {
	answer Answer
	times  int
}

// hammering is how many requests are too many between two ForgetRequests. From then on none is answered: an informer
// that asks without a pause would leave no time to pass in a bubble.
const hammering = 2000

// Always is a number of times that does not end.
const Always = int(^uint(0) >> 1)

// Answer makes the next requests of an op be answered so, times of them. It replaces what was said before for that op.
func (s *Server) Answer(op Op, times int, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules[op] = &rule{a, times}
}

// Normal makes all requests be answered as usual again.
func (s *Server) Normal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rules)
}

// note logs a request and finds its answer.
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

// Requests are those made so far, or since ForgetRequests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Hammered reports whether so many requests came that the server has stopped to answer.
func (s *Server) Hammered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hammered
}

// Count is how many of Requests were for an op.
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

// Gone is 410 Expired: the resourceVersion is too old.
func Gone() *metav1.Status {
	return failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
}

// Forbidden is 403.
func Forbidden() *metav1.Status {
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, `pods is forbidden: User "somebody" cannot list resource "pods"`)
}

// Unauthorized is 401.
func Unauthorized() *metav1.Status {
	return failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

// NotFound is 404 of the resource.
func NotFound() *metav1.Status {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

// Internal is 500.
func Internal() *metav1.Status {
	return failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: leader changed")
}

// TooManyRequests is 429 with a Retry-After.
func TooManyRequests(retryAfter time.Duration) *metav1.Status {
	s := failure(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "storage is (re)initializing")
	s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(retryAfter / time.Second)}
	return s
}

// TooLarge is 504: the server has not reached the resourceVersion asked for.
func TooLarge() *metav1.Status {
	s := failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version")
	s.Details = &metav1.StatusDetails{
		RetryAfterSeconds: 1,
		Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
	}
	return s
}

// Invalid is 422.
func Invalid(message string) *metav1.Status {
	return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, message)
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
}

// EndWatches ends all watches, as their deadline would.
func (s *Server) EndWatches() { s.toWatchers(frame{last: ended}) }

// BreakWatches breaks the connections of all watches.
func (s *Server) BreakWatches() { s.toWatchers(frame{last: broken}) }

// BreakWatchesMidEvent sends half of an update of a pod and breaks the connections of all watches. The pod must exist; it
// is not changed.
func (s *Server) BreakWatchesMidEvent(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.send(frame{change: change{"MODIFIED", s.objects[key]}, last: midEvent})
	}
}

// FailWatches sends an ERROR event on all watches and ends them.
func (s *Server) FailWatches(status *metav1.Status) { s.toWatchers(frame{status: status, last: ended}) }

// Repeat sends a pod as it is now, once more, on all watches, as ADDED or MODIFIED.
func (s *Server) Repeat(kind, key string) { s.Inject(kind, s.Pod(key)) }

// Inject sends an event of a pod on the watches that stand now; the server's own state stays as it is.
func (s *Server) Inject(kind string, pod *corev1.Pod) {
	s.toWatchers(frame{change: change{kind, &entry{key: pod.Namespace + "/" + pod.Name, pod: pod}}})
}

// Garble sends an event on all watches whose object is no pod: its frame is sound, its bytes are not.
func (s *Server) Garble() { s.toWatchers(frame{garbled: true}) }

// Bookmark sends a bookmark of the server's resourceVersion on all watches.
func (s *Server) Bookmark() { s.toWatchers(frame{bookmark: true}) }

// Watches is how many watches stand.
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
