package watchcache

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// testCache is a cache over a store of JSON things, and the writer of that store.
type testCache struct {
	t       *testing.T
	store   *store.Store
	writer  *store.Writer
	history *History
	cache   *Cache
	rv      uint64
	lives   map[string]int // number of deletions by name; a new object gets another uid
}

var things = Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"},
	Kind:                 "Thing",
	Namespaced:           true,
	Fields:               []Field{{Label: "spec.color", Paths: []string{"spec.color"}}},
}

const firstVersion = 100

// newTestCache returns a testCache whose first LIST was empty. change may change the configuration.
func newTestCache(t *testing.T, logBytes int64, change func(*Config)) *testCache {
	t.Helper()
	tc := &testCache{t: t, rv: firstVersion, lives: map[string]int{}}
	tc.store = store.New(store.Config{Encoding: wire.JSON, KeepLog: true, LogBytes: logBytes})
	tc.writer = tc.store.Writer(store.Scope{})
	tc.writer.BeginReplace(false)
	tc.writer.EndReplace(resourceversion.Format(tc.rv))
	tc.history = NewHistory(0, tc.rv, tc.store.Revision())
	cfg := Config{Resource: things, Store: tc.store, Encoding: wire.JSON, History: tc.history}
	if change != nil {
		change(&cfg)
	}
	var err error
	if tc.cache, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return tc
}

// indexColors adds indexes by the color label and by the color field.
func (tc *testCache) indexColors() {
	tc.t.Helper()
	for _, name := range []string{labelPrefix + "color", fieldPrefix + "spec.color"} {
		if err := tc.cache.indexes.add(name, &index{permanent: true}); err != nil {
			tc.t.Fatal(err)
		}
	}
}

// subscribe returns a subscription to the changes from now on.
func (tc *testCache) subscribe(of interest) *subscription {
	tc.t.Helper()
	_, _, cursor, err := tc.cache.now()
	if err != nil {
		tc.t.Fatal(err)
	}
	sub, err := tc.cache.hub.join(of, cursor)
	if err != nil {
		tc.t.Fatal(err)
	}
	return sub
}

func (tc *testCache) close() {
	c := tc.cache
	if n := c.held.bytes.Load(); c.counters.watchers.Load() == 0 && c.hub.n.Load() == 0 && (n != 0 || len(c.held.versions) != 0) {
		tc.t.Errorf("%d bytes of %d versions are kept without a watcher", n, len(c.held.versions))
	}
	c.Close()
	tc.store.Close()
}

// thing is an object that the tests write.
type thing struct {
	namespace, name, color string
	rv                     uint64
	life                   int
}

// uidOf returns the uid of a thing with this name. life is how often the thing was deleted and
// created again.
func uidOf(name string, life int) string {
	sum := md5.Sum(fmt.Append(nil, name, life))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
}

func (th *thing) json() []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d",`+
		`"labels":{"color":%q}},"spec":{"color":%q}}`, th.name, th.namespace, uidOf(th.name, th.life), th.rv, th.color, th.color)
}

// put writes a thing at the next resourceVersion.
func (tc *testCache) put(namespace, name, color string) thing {
	tc.t.Helper()
	tc.rv++
	th := thing{namespace, name, color, tc.rv, tc.lives[name]}
	tc.write(&th, tc.writer.Put)
	return th
}

// remove deletes a thing at the next resourceVersion.
func (tc *testCache) remove(namespace, name string) uint64 {
	tc.t.Helper()
	tc.rv++
	tc.write(&thing{namespace, name, "", tc.rv, tc.lives[name]}, tc.writer.Delete)
	tc.lives[name]++
	return tc.rv
}

func (tc *testCache) write(th *thing, do func(*wire.Meta, []byte) error) {
	tc.t.Helper()
	tc.writeBytes(th.json(), do)
}

// writeRaw writes an object's bytes. Only their metadata need be valid.
func (tc *testCache) writeRaw(raw []byte) {
	tc.t.Helper()
	tc.writeBytes(raw, tc.writer.Put)
}

func (tc *testCache) writeBytes(raw []byte, do func(*wire.Meta, []byte) error) {
	tc.t.Helper()
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, raw, &m); err != nil {
		tc.t.Fatal(err)
	}
	before := tc.store.Revision()
	if err := do(&m, raw); err != nil {
		tc.t.Fatal(err)
	}
	if tc.writer.Flush(); tc.store.Revision() > before {
		tc.history.Add(tc.rv, tc.store.Revision())
	}
	tc.writer.Progress(resourceversion.Format(tc.rv))
}

// list is the response to a LIST in JSON.
type list struct {
	Metadata struct {
		ResourceVersion, Continue string
	}
	Items []struct {
		Metadata struct{ Namespace, Name, ResourceVersion string }
	}
	Code    int
	Reason  string
	Message string
}

func (tc *testCache) list(namespace, query string) list {
	tc.t.Helper()
	w := httptest.NewRecorder()
	serveList(tc.cache, w, httptest.NewRequest(http.MethodGet, "/?"+query, nil), namespace, "")
	var l list
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		tc.t.Fatalf("%v: %s", err, w.Body)
	}
	return l
}

// names returns the items as namespace/name@resourceVersion.
func (l *list) names() (out []string) {
	for _, item := range l.Items {
		out = append(out, item.Metadata.Namespace+"/"+item.Metadata.Name+"@"+item.Metadata.ResourceVersion)
	}
	return out
}

// recorder is a client that reads and records everything, or reads nothing while it is blocked.
type recorder struct {
	header http.Header
	// gate contains a token that each write needs; block removes the token. It is a channel, because
	// synctest detects goroutines that wait for it.
	gate chan struct{}

	mu      sync.Mutex
	body    bytes.Buffer
	flushes int
}

func newRecorder() *recorder {
	r := &recorder{header: http.Header{}, gate: make(chan struct{}, 1)}
	r.unblock()
	return r
}

func (r *recorder) block()   { <-r.gate }
func (r *recorder) unblock() { r.gate <- struct{}{} }

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushes++
}

// flushed returns how often the watch has flushed: once each time that it was woken.
func (r *recorder) flushed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flushes
}

func (r *recorder) Write(p []byte) (int, error) {
	r.block()
	defer r.unblock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Write(p)
}

// events returns the events received so far, each as "TYPE namespace/name@resourceVersion", "ERROR
// code" or "BOOKMARK@resourceVersion".
func (r *recorder) events(t *testing.T) (out []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	events := wire.NewWatchReader(bytes.NewReader(r.body.Bytes()), wire.JSON, wire.Limits{})
	for e, err := events.Next(); err == nil; e, err = events.Next() {
		var object struct {
			Code     int
			Metadata struct {
				Namespace, Name, ResourceVersion string
				Annotations                      map[string]string
			}
		}
		if err := json.Unmarshal(e.Object, &object); err != nil {
			t.Fatal(err)
		}
		m := object.Metadata
		switch e.Type {
		case wire.Error:
			out = append(out, fmt.Sprintf("ERROR %d", object.Code))
		case wire.Bookmark:
			text := "BOOKMARK@" + m.ResourceVersion
			if upTo := m.Annotations[wire.CoalescedAnnotation]; upTo != "" {
				text += " coalesced " + upTo
			}
			out = append(out, text)
		default:
			out = append(out, fmt.Sprintf("%v %s/%s@%s", e.Type, m.Namespace, m.Name, m.ResourceVersion))
		}
	}
	return out
}

func fieldsOf(t *testing.T, text string) fields.Selector {
	t.Helper()
	f, err := fields.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newRequest(query string) *http.Request {
	return httptest.NewRequest(http.MethodGet, "/?"+query, nil)
}

// watch starts a WATCH; stop ends it and waits for its end.
func (tc *testCache) watch(query string, w http.ResponseWriter) (stop func()) {
	return tc.watchAs("", query, w)
}

// watchAs is watch with an Accept header.
func (tc *testCache) watchAs(accept, query string, w http.ResponseWriter) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r := newRequest("watch=1&" + query).WithContext(ctx)
	r.Header.Set("Accept", accept)
	go func() {
		defer close(done)
		serveList(tc.cache, w, r, "", "")
	}()
	return func() {
		cancel()
		<-done
	}
}

// serveList answers a LIST or a WATCH in a namespace, according to the query of r. An empty
// namespace or name means all.
func serveList(c *Cache, w http.ResponseWriter, r *http.Request, namespace, name string) {
	o, err := request.ParseOptions(r.URL.Query())
	if err != nil {
		WriteError(w, r, err)
		return
	}
	c.Serve(w, r, readOf(r, o, "list", namespace, name))
}

// serveGet answers a GET of one object, according to the query of r.
func serveGet(c *Cache, w http.ResponseWriter, r *http.Request, namespace, name string) {
	o, err := request.ParseOptions(r.URL.Query())
	if err != nil {
		WriteError(w, r, err)
		return
	}
	c.Serve(w, r, readOf(r, o, "get", namespace, name))
}

func readOf(r *http.Request, o *request.Options, verb, namespace, name string) *request.Request {
	path := request.Path{Namespace: namespace, Name: name}
	return &request.Request{Info: request.Info{Path: path, Verb: verb}, Options: *o, Accept: request.ParseAccept(r.Header)}
}
