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

	"github.com/weirproject/weir/internal/invariants"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/testgc"
	"github.com/weirproject/weir/internal/wire"
)

func TestMain(m *testing.M) {
	testgc.Relax()
	if flag.Lookup("test.bench").Value.String() == "" { // benchmarks measure without the checks
		checking = checking || !invariants.Race // which makes minutes of them
	}
	goleak.VerifyTestMain(m)
}

// world is a scripted API server of pods, a store, and a reflector between them, in a bubble: time
// passes only when everybody waits, so what is waited for is exact.
type world struct {
	t     *testing.T
	enc   wire.Encoding
	store *store.Store
	scope store.Scope
	r     *Reflector
	stop  func() error // ends Run and gives its error

	mu       sync.Mutex
	began    time.Time
	script   []http.HandlerFunc
	server   http.HandlerFunc // answers when the script is at its end
	requests []string         // each with the time since Run began
	statuses []Status
	refused  bool // nobody listens
}

// inWorld runs f with each encoding. The answers are given in the order of script, then the server
// only waits.
func inWorld(t *testing.T, cfg Config, f func(w *world)) {
	t.Helper()
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		t.Run(enc.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, enc: enc, server: hold, store: store.New(store.Config{Encoding: enc})}
				defer w.store.Close()
				w.serve(cfg)
				f(w)
				if w.stop != nil {
					w.stop()
				}
			})
		})
	}
}

// serve starts the server and makes the reflector.
func (w *world) serve(cfg Config) {
	conns := &pipes{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: w, ErrorLog: nil}
	go srv.Serve(conns)
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		w.mu.Lock()
		refused := w.refused
		if refused {
			w.note("nobody there")
		}
		w.mu.Unlock()
		if refused {
			return nil, syscall.ECONNREFUSED
		}
		a, b := net.Pipe()
		select {
		case conns.c <- b:
			return a, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	w.t.Cleanup(func() {
		tr.CloseIdleConnections()
		srv.Close()
	})
	src, err := source.New(&rest.Config{Host: "http://pipe", Transport: tr}, source.Resource{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Encoding: w.enc}, source.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg.OnStatus = func(s Status) {
		w.mu.Lock()
		defer w.mu.Unlock()
		last := Status{}
		if n := len(w.statuses); n > 0 {
			last = w.statuses[n-1]
		}
		if rv := w.r.sink.ResourceVersion(); (s.Synced && !last.Synced || s.Relists > last.Relists) && rv != s.ResourceVersion {
			w.t.Errorf("told of a list at %q while the store was still at %q", s.ResourceVersion, rv)
		}
		w.statuses = append(w.statuses, s)
	}
	w.r = New(src, w.store.Writer(w.scope), cfg)
	w.r.cfg.Backoff.Random = func() float64 { return 0.5 }
}

// run starts the reflector with these answers, and waits until nothing happens any more but by
// time.
func (w *world) run(script ...http.HandlerFunc) {
	w.script, w.began = script, time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.r.Run(ctx) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	synctest.Wait()
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) note(what string) {
	w.requests = append(w.requests, fmt.Sprintf("%v %s", time.Since(w.began).Round(time.Millisecond), what))
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
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
	w.mu.Lock()
	w.note(what)
	answer := w.server
	if len(w.script) > 0 {
		answer, w.script = w.script[0], w.script[1:]
	}
	w.mu.Unlock()
	answer(rw, r)
}

// sees compares the requests so far and forgets them.
func (w *world) sees(want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.requests, want) {
		w.t.Errorf("requests:\n\t%s\nwant:\n\t%s", strings.Join(w.requests, "\n\t"), strings.Join(want, "\n\t"))
	}
	w.requests = nil
}

// holds compares what the store holds, as name@resourceVersion.
func (w *world) holds(want string) {
	w.t.Helper()
	var got []string
	for o := range w.store.Snapshot().All() {
		got = append(got, o.Name()+"@"+o.ResourceVersion())
	}
	if s := strings.Join(got, " "); s != want {
		w.t.Errorf("the store holds %s, want %s", s, want)
	}
}

// told reports whether a Status had this error since the last call, and forgets them.
func (w *world) told(err error) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.statuses, func(s Status) bool { return errors.Is(s.Err, err) }) {
		w.t.Errorf("nobody was told of %v, but of %v", err, w.statuses)
	}
	w.statuses = nil
}

// fine checks that the store is current to rv.
func (w *world) fine(rv string) {
	w.t.Helper()
	s := w.r.Status()
	if s.Phase != Watching || s.Err != nil || s.ResourceVersion != rv || w.store.ResourceVersion() != rv || !w.store.Synced() {
		w.t.Errorf("%s; the store is at %q, synced %v; want %s", s, w.store.ResourceVersion(), w.store.Synced(), rv)
	}
}

// refuse makes nobody listen.
func (w *world) refuse(refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = refused
}

// pipes is a listener in memory.
type pipes struct {
	c    chan net.Conn
	done chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.c:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// pod is an object, from "name@resourceVersion", perhaps followed by "=text" of an annotation.
func (w *world) pod(s string) []byte {
	s, text, _ := strings.Cut(s, "=")
	name, rv, _ := strings.Cut(s, "@")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", ResourceVersion: rv,
		Labels: map[string]string{"app": name}, Annotations: map[string]string{"text": text}}}
	return w.encode(p, p.Marshal)
}

func (w *world) encode(object any, marshal func() ([]byte, error)) []byte {
	if w.enc == wire.JSON {
		marshal = func() ([]byte, error) { return json.Marshal(object) }
	}
	b, err := marshal()
	if err != nil {
		panic(err)
	}
	return b
}

// listBody is a LIST's answer: rv, or rv/continue, and its pods.
func (w *world) listBody(rv string, pods ...string) []byte {
	rv, cont, _ := strings.Cut(rv, "/")
	var items [][]byte
	var size int64
	for _, p := range pods {
		items = append(items, w.pod(p))
		size += wire.ListItemSize(len(items[len(items)-1]))
	}
	var b bytes.Buffer
	lw := wire.NewListWriter(&b, w.enc, wire.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		wire.ListMeta{ResourceVersion: rv, Continue: cont}, size)
	for _, item := range items {
		lw.WriteItem(item)
	}
	if err := lw.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func (w *world) list(rv string, pods ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", w.enc.ContentType())
		rw.Write(w.listBody(rv, pods...))
	}
}

// brokenLists is a list that breaks off after n tenths of its body.
func (w *world) brokenLists(n int, rv string, pods ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", w.enc.ContentType())
		body := w.listBody(rv, pods...)
		rw.Write(body[:len(body)*n/10])
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// event is "+name@rv" (added), "~name@rv", "-name@rv", "bookmark@rv", "end@rv" (of the initial
// events), "coalesced@rv>to" or "error@410".
func (w *world) event(s string) []byte {
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
		return wire.AppendEvent(nil, w.enc, wire.Bookmark, tm, w.encode(p, p.Marshal))
	case "error":
		st := &metav1.Status{Status: metav1.StatusFailure}
		fmt.Sscan(rv, &st.Code)
		return wire.AppendEvent(nil, w.enc, wire.Error, wire.TypeMeta{APIVersion: "v1", Kind: "Status"}, w.encode(st, st.Marshal))
	}
	types := map[byte]wire.EventType{'+': wire.Added, '~': wire.Modified, '-': wire.Deleted}
	return wire.AppendEvent(nil, w.enc, types[s[0]], tm, w.pod(s[1:]))
}

// events are sent at once; then the watch is held, or ended when the last is "EOF", or brokenLists
// when it is "brokenLists".
func (w *world) events(events ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", w.enc.WatchContentType())
		rw.WriteHeader(200)
		for _, e := range events {
			switch e {
			case "EOF":
				return
			case "brokenLists":
				rw.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			rw.Write(w.event(e))
		}
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// hold answers nothing.
func hold(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func version(v string) http.HandlerFunc {
	major, minor, _ := strings.Cut(v, ".")
	return func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"major":%q,"minor":%q}`, major, minor)
	}
}

// deny answers with a Status.
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
