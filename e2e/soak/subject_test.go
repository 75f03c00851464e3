package soak

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// subject is an informer under test, or several informers that together have the same objects as
// one.
type subject struct {
	name    string // kind of informer, such as "native" or "client-go"
	way     string
	of      string // the informer's objects: "configmaps", "widgets" or "configmaps 2x2"
	control bool   // uses client-go's informer, which need not survive a restore

	requests  *requests
	seen      *sightings
	histories []*history
	// objects returns the objects in the subject's store that the test compares.
	objects func() map[string]version
	// content returns one object, to compare the whole object. If it is nil, only versions are
	// compared.
	content func(key string) (any, error)
	// settle and current belong to a subject that itself writes and reads. The test calls settle after
	// the last fault. current reports whether a whole round of writes and reads has succeeded since
	// then: the test waits for this round too. For other subjects both functions are nil, and the test
	// waits only until the objects are equal.
	settle  func()
	current func() bool
	// problems returns the errors that the subject itself has found since the previous call. It may be
	// nil.
	problems func() []string
	// trouble describes the state of the subject, for the log.
	trouble func() string
	stop    func()

	result *result
	lost   bool   // was not current in time, and has not been current since
	asked  string // requests until it was current, for the log
	// servers says, for each API server, whether the subject was connected to it when the subject was
	// last current (see serversOf).
	servers []bool
}

func (s *subject) String() string { return fmt.Sprintf("%s/%s of %s", s.way, s.name, s.of) }

// newSubject creates a subject and the client configuration for its informer. The caller sets the
// other fields, and starts the informer.
func (w *world) newSubject(name, way, of string) (*subject, *rest.Config) {
	s := &subject{name: name, way: way, of: of, requests: &requests{begun: w.begun, line: w.line, tap: newTap(w.begun)}, seen: &sightings{}, trouble: func() string { return "" }}
	cfg := w.config(way, name+"/"+of)
	cfg.Wrap(s.requests.wrap)
	return s, cfg
}

// end stops the subject, and adds the numbers of its requests to its result.
func (s *subject) end() {
	s.stop()
	s.result.Lists += s.requests.lists.Load()
	s.result.Probes += s.requests.probes.Load()
	s.result.Watches += s.requests.watches.Load()
}

// newHistory returns a history to check a handler of the subject, and adds it to the subject.
func (s *subject) newHistory(w *world, part string) *history {
	h := newHistory(s.String()+part, w.begun, s.seen)
	h.tap = s.requests.tap
	h.replicas = s.way == "proxy" && strings.HasSuffix(s.name, clientGo)
	s.histories = append(s.histories, h)
	return h
}

// told returns the compared objects that exist according to the events of all handlers. If the
// handlers have different versions of an object, told returns the newest.
func (s *subject) told() map[string]version {
	out := map[string]version{}
	for _, h := range s.histories {
		for key, v := range h.holds() {
			if !compared(key) {
				continue
			}
			if v.rv >= out[key].rv {
				out[key] = v
			}
		}
	}
	return out
}

// tellings returns the last events of a key of all handlers, for the log.
func (s *subject) tellings(key string) (out string) {
	for _, h := range s.histories {
		out += h.name + " was told\n    " + h.told(key) + "\n    "
	}
	return out
}

// handler returns a client-go handler that passes each call to the history.
func (h *history) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { h.added(keyOf(o), versionOf(metaOf(o))) },
		UpdateFunc: func(old, o any) {
			h.updated(keyOf(o), versionOf(metaOf(old)), versionOf(metaOf(o)))
		},
		DeleteFunc: func(o any) {
			key := keyOf(o)
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			h.deleted(key, versionOf(metaOf(o)))
		},
	}
}

func metaOf(o any) metav1.Object { return o.(metav1.Object) }

func keyOf(o any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	if err != nil {
		panic(err) // informers pass no other types
	}
	return key
}

// compared reports whether the object is in a namespace to which only the test's writers write.
// Objects in other namespaces may change during a comparison.
func compared(key string) bool {
	for _, ns := range namespaces {
		if len(key) > len(ns) && key[:len(ns)+1] == ns+"/" {
			return true
		}
	}
	return false
}

// requests counts the requests of a subject (an informer under test). It stores the last
// maxRequests notes about requests, for the log. It is safe for concurrent use.
type requests struct {
	begun          time.Time
	line           *line
	lists, watches atomic.Int64
	probes         atomic.Int64 // LISTs with limit=1, which only read the newest resourceVersion

	tap    *tap
	number atomic.Int64
	mu     sync.Mutex
	last   []string
	putOff time.Time // latest time until which a Retry-After header requested to wait
}

// maxRequests bounds the stored notes.
const maxRequests = 40

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper { return &countingTransport{next, r} }

func (r *requests) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last, fmt.Sprintf("%8.3fs  %s", time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...)))
	r.last = r.last[max(0, len(r.last)-maxRequests):]
}

// retryAfter records the time until which a Retry-After header requests to wait. It ignores a
// header that is not a number.
func (r *requests) retryAfter(header string) {
	seconds, err := strconv.Atoi(header)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := time.Now().Add(time.Duration(seconds) * time.Second); until.After(r.putOff) {
		r.putOff = until
	}
}

// putOffUntil returns the latest time until which a response has requested to wait.
func (r *requests) putOffUntil() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.putOff
}

func (r *requests) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.last, "\n    ")
}

type countingTransport struct {
	http.RoundTripper
	requests *requests
}

// RoundTrip counts the requests. A WATCH that sends the initial state counts as a LIST, and a LIST
// with limit=1 counts as a probe.
func (t *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	watches := q.Has("watch") && q.Get("watch") != "false" && q.Get("watch") != "0"
	switch {
	case watches && q.Get("sendInitialEvents") != "true":
		t.requests.watches.Add(1)
	case q.Get("limit") == "1":
		t.requests.probes.Add(1)
	default:
		t.requests.lists.Add(1)
	}
	number := t.requests.number.Add(1)
	begun, server := time.Now(), "no server"
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		server = t.requests.line.server(c.Conn.LocalAddr())
	}}))
	resp, err := t.RoundTripper.RoundTrip(r)
	took := time.Since(begun).Seconds()
	if err != nil {
		t.requests.note("#%d %s?%s: %v after %.3f s, %s", number, r.URL.Path, r.URL.RawQuery, err, took, server)
		return resp, err
	}
	t.requests.note("#%d %s?%s: %d after %.3f s, %s", number, r.URL.Path, r.URL.RawQuery, resp.StatusCode, took, server)
	t.requests.retryAfter(resp.Header.Get("Retry-After"))
	if resp.StatusCode == http.StatusOK {
		resp.Body = t.requests.tap.listen(number, resp, watches)
	}
	resp.Body = &notedBody{ReadCloser: resp.Body, ended: func(err error, size int64) {
		t.requests.note("#%d ended after %d bytes: %v", number, size, err)
	}}
	return resp, nil
}

// WrappedRoundTripper returns the inner transport. client-go needs it to close idle connections.
func (t *countingTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// notedBody is a response body that calls the function ended once, at the end of the body or at an
// error.
type notedBody struct {
	io.ReadCloser
	size  int64
	once  sync.Once
	ended func(err error, size int64)
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	if err != nil {
		b.once.Do(func() { b.ended(err, b.size) })
	}
	return n, err
}

// running starts f in a goroutine. stop cancels the context of f, and waits until f returns.
func running(ctx context.Context, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
