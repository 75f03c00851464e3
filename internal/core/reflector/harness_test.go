package reflector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks measure step without its checks
		checking = checking || !testenv.Race // with the race detector, the checks take minutes
	}
	goleak.VerifyTestMain(m)
}

// harness contains an API server of pods with scripted responses, a store, and a reflector that
// copies the pods to the store. All run in a synctest bubble. Time advances only when all
// goroutines wait, so tests can check exact times.
type harness struct {
	t     *testing.T
	enc   wire.Encoding
	store *store.Store
	scope store.Scope
	r     *Reflector
	stop  func() error // ends Run and returns its error

	mu       sync.Mutex
	began    time.Time
	script   []http.HandlerFunc
	server   http.HandlerFunc // handles the requests after the end of script
	requests []string         // each request, with its time since the start of Run
	statuses []Status
	refused  bool // the server refuses connections
}

// withHarness runs f with each encoding. The server handles the n-th request with the n-th function
// of script. h.server handles further requests; by default it never responds.
func withHarness(t *testing.T, cfg Config, f func(h *harness)) {
	t.Helper()
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		t.Run(enc.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &harness{t: t, enc: enc, server: hold, store: store.New(store.Config{Encoding: enc})}
				defer h.store.Close()
				h.serve(cfg)
				f(h)
				if h.stop != nil {
					h.stop()
				}
			})
		})
	}
}

// serve starts the server and creates the reflector.
func (h *harness) serve(cfg Config) {
	l := testenv.Listen()
	srv := &http.Server{Handler: h, ErrorLog: nil}
	go srv.Serve(l)
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		h.mu.Lock()
		refused := h.refused
		if refused {
			h.record("no server")
		}
		h.mu.Unlock()
		if refused {
			return nil, syscall.ECONNREFUSED
		}
		return l.Dial(ctx, network, address)
	}}
	h.t.Cleanup(func() {
		tr.CloseIdleConnections()
		srv.Close()
	})
	src, err := source.New(&rest.Config{Host: "http://pipe", Transport: tr}, source.Resource{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Encoding: h.enc}, source.Options{})
	check.NoError(h.t, err)
	cfg.OnStatus = func(s Status) {
		h.mu.Lock()
		defer h.mu.Unlock()
		last := Status{}
		if n := len(h.statuses); n > 0 {
			last = h.statuses[n-1]
		}
		if rv := h.r.sink.ResourceVersion(); (s.Synced && !last.Synced || s.Relists > last.Relists) && rv != s.ResourceVersion {
			h.t.Errorf("told of a list at %q while the store was still at %q", s.ResourceVersion, rv)
		}
		h.statuses = append(h.statuses, s)
	}
	h.r = New(src, h.store.Writer(h.scope), cfg)
	h.r.cfg.Backoff.Random = func() float64 { return 0.5 }
}

// run starts the reflector with this script, and returns when all goroutines wait.
func (h *harness) run(script ...http.HandlerFunc) {
	h.script, h.began = script, time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.r.Run(ctx) }()
	h.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	synctest.Wait()
}

// advance advances the clock by d, and waits until all goroutines wait again.
func (h *harness) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (h *harness) record(what string) {
	h.requests = append(h.requests, fmt.Sprintf("%v %s", time.Since(h.began).Round(time.Millisecond), what))
}

func (h *harness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	what := "LIST"
	switch {
	case r.URL.Path == "/version":
		what = "VERSION"
	case q.Has("watch"):
		what = "WATCH"
	}
	for _, k := range []string{"resourceVersion", "resourceVersionMatch", "sendInitialEvents", "limit", "continue"} {
		if q.Has(k) {
			what += " " + k + "=" + q.Get(k)
		}
	}
	h.mu.Lock()
	h.record(what)
	answer := h.server
	if len(h.script) > 0 {
		answer, h.script = h.script[0], h.script[1:]
	}
	h.mu.Unlock()
	answer(rw, r)
}

// wantRequests checks the requests since the last call of wantRequests.
func (h *harness) wantRequests(want ...string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.requests, want) {
		h.t.Errorf("requests:\n\t%s\nwant:\n\t%s", strings.Join(h.requests, "\n\t"), strings.Join(want, "\n\t"))
	}
	h.requests = nil
}

// wantObjects checks the objects in the store. want contains name@resourceVersion for each object,
// ordered by key.
func (h *harness) wantObjects(want string) {
	h.t.Helper()
	var got []string
	for o := range h.store.Snapshot().All() {
		got = append(got, o.Name()+"@"+o.ResourceVersion())
	}
	check.Equal(h.t, strings.Join(got, " "), want, "the store holds")
}

// wantReported checks that the reflector has reported err in a Status since the last call of
// wantReported.
func (h *harness) wantReported(err error) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.statuses, func(s Status) bool { return errors.Is(s.Err, err) }) {
		h.t.Errorf("no Status had %v, but %v", err, h.statuses)
	}
	h.statuses = nil
}

// wantCurrent checks that the reflector watches without an error, and that the store is current to
// rv.
func (h *harness) wantCurrent(rv string) {
	h.t.Helper()
	s := h.r.Status()
	if s.Phase != Watching || s.Err != nil || s.ResourceVersion != rv || h.store.ResourceVersion() != rv || !h.store.Synced() {
		h.t.Errorf("%s; the store is at %q, synced %v; want %s", s, h.store.ResourceVersion(), h.store.Synced(), rv)
	}
}

func (h *harness) refuseConnections(refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = refused
}

// pod returns the encoded pod for a text like "name@resourceVersion". An optional "=text" at the
// end sets an annotation.
func (h *harness) pod(s string) []byte {
	s, text, _ := strings.Cut(s, "=")
	name, rv, _ := strings.Cut(s, "@")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", ResourceVersion: rv,
		Labels: map[string]string{"app": name}, Annotations: map[string]string{"text": text}}}
	return h.encode(p, p.Marshal)
}

func (h *harness) encode(object any, marshal func() ([]byte, error)) []byte {
	if h.enc == wire.JSON {
		marshal = func() ([]byte, error) { return json.Marshal(object) }
	}
	b, err := marshal()
	if err != nil {
		panic(err)
	}
	return b
}

// listBody returns the body of a LIST. rv is its resourceVersion, or "resourceVersion/continue" for
// a page.
func (h *harness) listBody(rv string, pods ...string) []byte {
	rv, cont, _ := strings.Cut(rv, "/")
	var items [][]byte
	var size int64
	for _, p := range pods {
		items = append(items, h.pod(p))
		size += wire.ListItemSize(len(items[len(items)-1]))
	}
	var b bytes.Buffer
	lw := wire.NewListWriter(&b, h.enc, wire.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		wire.ListMeta{ResourceVersion: rv, Continue: cont}, size)
	for _, item := range items {
		lw.WriteItem(item)
	}
	if err := lw.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (h *harness) list(rv string, pods ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", contentType(h.enc))
		rw.Write(h.listBody(rv, pods...))
	}
}

// brokenList returns a list whose connection breaks after n tenths of its body.
func (h *harness) brokenList(n int, rv string, pods ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", contentType(h.enc))
		body := h.listBody(rv, pods...)
		rw.Write(body[:len(body)*n/10])
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// event returns the encoded event for a text: "+name@rv" (added), "~name@rv" (modified), "-name@rv"
// (deleted), "bookmark@rv", "end@rv" (the bookmark that ends initial events), "coalesced@rv>to" or
// "error@410".
func (h *harness) event(s string) []byte {
	tm := wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	what, rv, _ := strings.Cut(s, "@")
	switch what {
	case "bookmark", "end", "coalesced":
		rv, to, _ := strings.Cut(rv, ">")
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
		if what == "coalesced" {
			p.Annotations = map[string]string{wire.CoalescedAnnotation: to}
		}
		if what == "end" {
			p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		return wire.AppendEvent(nil, h.enc, wire.Bookmark, tm, h.encode(p, p.Marshal))
	case "error":
		st := &metav1.Status{Status: metav1.StatusFailure}
		fmt.Sscan(rv, &st.Code)
		return wire.AppendEvent(nil, h.enc, wire.Error, wire.TypeMeta{APIVersion: "v1", Kind: "Status"}, h.encode(st, st.Marshal))
	}
	types := map[byte]wire.EventType{'+': wire.Added, '~': wire.Modified, '-': wire.Deleted}
	return wire.AppendEvent(nil, h.enc, types[s[0]], tm, h.pod(s[1:]))
}

// events returns a watch that sends all events immediately. If the last one is "EOF", the server
// then ends the watch; if it is "broken", the connection breaks; otherwise the watch remains open.
func (h *harness) events(events ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", watchContentType(h.enc))
		rw.WriteHeader(200)
		for _, e := range events {
			switch e {
			case "EOF":
				return
			case "broken":
				rw.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			rw.Write(h.event(e))
		}
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// hold never responds.
func hold(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func version(v string) http.HandlerFunc {
	major, minor, _ := strings.Cut(v, ".")
	return func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"major":%q,"minor":%q}`, major, minor)
	}
}

// deny responds with a metav1.Status of this code.
func deny(code int, retryAfter string, causes ...metav1.StatusCause) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			rw.Header().Set("Retry-After", retryAfter)
		}
		rw.WriteHeader(code)
		json.NewEncoder(rw).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Code: int32(code), Message: "denied", Details: &metav1.StatusDetails{Causes: causes}})
	}
}

func text(code int, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		rw.WriteHeader(code)
		io.WriteString(rw, body)
	}
}
