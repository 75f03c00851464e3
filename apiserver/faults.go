package apiserver

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Faults makes servers fail on purpose. The zero value has no effect. A Faults is safe for
// concurrent use: a test may change it while servers use it. Several servers may share one Faults.
type Faults struct {
	mu            sync.Mutex
	rules         []*Rule
	bookmarkDelay time.Duration
	noBookmarks   bool
	buffer        int
}

// Rule is one fault. If several rules match a request, the rule that was added first applies. A
// rule sets Err, Cut or Hold. A rule with Hold may also set Err or Cut, but no rule may set both
// Err and Cut. CutCleanly requires Cut.
type Rule struct {
	// Match reports whether the rule applies to a request. If it is nil, the rule applies to all
	// requests. See [Match].
	Match func(*http.Request) bool
	// Times is the number of requests to which the rule applies. 0 means all requests.
	Times int
	// Err is the error that the server sends instead of the real response. It sends an
	// apierrors.StatusError as a Status, with a Retry-After header if the Status has
	// retryAfterSeconds.
	Err error
	// Cut is the number of bytes of the body after which the server closes the connection. The server
	// always sends the headers. If Cut is nil, the server sends the whole body.
	Cut *int64
	// CutCleanly makes the server end the body at Cut as if it were complete, in place of closing the
	// connection.
	CutCleanly bool
	// Hold delays the response until the channel is closed, the server is closed or the client
	// disconnects.
	Hold <-chan struct{}
}

// Match returns a Rule.Match for requests of one verb (get, list, watch, create, update, patch,
// delete, deletecollection) for one resource, such as pods. An empty verb or resource matches any.
func Match(verb, resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		info := request.InfoOf(r.Method, r.URL)
		return info.OfResource && (resource == "" || info.Resource == resource) && (verb == "" || info.Verb == verb)
	}
}

// Add adds a rule. remove removes the rule.
func (f *Faults) Add(r Rule) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rule := &r
	rule.Times = cmp.Or(rule.Times, -1)
	f.rules = append(f.rules, rule)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rules = slices.DeleteFunc(f.rules, func(o *Rule) bool { return o == rule })
	}
}

// Bookmarks delays the bookmark that ends the initial events by the duration late. If never is
// true, the server sends no bookmarks at all, like a server that does not support
// sendInitialEvents. Both apply only to watches that start after the call.
func (f *Faults) Bookmarks(late time.Duration, never bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bookmarkDelay, f.noBookmarks = late, never
}

func (f *Faults) bookmarks() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bookmarkDelay, f.noBookmarks
}

// WatchBuffer makes the server close a watch if its client reads so slowly that more than the given
// number of changes wait to be sent. As with kube-apiserver, the watch ends without an error,
// possibly before the initial state is complete. WatchBuffer applies to watches without selectors
// that start after the call. With 0, the server closes no watch because of a slow client.
func (f *Faults) WatchBuffer(changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buffer = changes
}

func (f *Faults) watchBuffer() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buffer
}

// ruleFor returns the rule for a request, or nil.
func (f *Faults) ruleFor(r *http.Request) *Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, rule := range f.rules {
		if rule.Match != nil && !rule.Match(r) {
			continue
		}
		if rule.Times > 0 {
			if rule.Times--; rule.Times == 0 {
				f.rules = slices.Delete(f.rules, i, i+1)
			}
		}
		return rule
	}
	return nil
}

// apply applies the rule that matches a request. If released is closed, the rule's Hold ends. If
// done is false, the caller must write the response to out.
func (f *Faults) apply(w http.ResponseWriter, r *http.Request, released <-chan struct{}) (out http.ResponseWriter, done bool) {
	rule := f.ruleFor(r)
	if rule == nil {
		return w, false
	}
	if rule.Hold != nil {
		select {
		case <-rule.Hold:
		case <-released:
		case <-r.Context().Done():
		}
	}
	if rule.Err != nil {
		watchcache.WriteError(w, r, rule.Err)
		return w, true
	}
	if rule.Cut != nil {
		return &truncatingWriter{ResponseWriter: w, left: *rule.Cut, clean: rule.CutCleanly}, false
	}
	return w, false
}

// truncatingWriter ends a response when it has written a limited number of body bytes; left counts
// the bytes that it may still write.
type truncatingWriter struct {
	http.ResponseWriter
	left  int64
	clean bool
	begun bool
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (c *truncatingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader sends the headers without the Content-Length, because that is the length of the whole
// body.
func (c *truncatingWriter) WriteHeader(code int) {
	if !c.begun {
		c.begun = true
		c.Header().Del("Content-Length")
		c.ResponseWriter.WriteHeader(code)
	}
}

var errCut = apierrors.NewInternalError(http.ErrAbortHandler)

func (c *truncatingWriter) Write(p []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if int64(len(p)) <= c.left {
		c.left -= int64(len(p))
		return c.ResponseWriter.Write(p)
	}
	n, err := c.ResponseWriter.Write(p[:c.left])
	c.left = 0
	if err != nil {
		return n, err
	}
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	if c.clean {
		return n, errCut
	}
	panic(http.ErrAbortHandler)
}
