package reflector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// model is an API server that behaves correctly between faults. It has a state with one
// resourceVersion, a log of changes, pages of one revision, compaction, bookmarks once a minute,
// and restores of older states.
type model struct {
	h *harness

	mu        sync.Mutex
	rng       *rand.Rand
	rv        int
	objects   map[string]int // resourceVersions by name
	log       []entry        // the changes after compacted
	compacted int
	pages     map[string]page // by continue token
	changed   chan struct{}   // closed and replaced at each change
	cut       chan struct{}   // closed and replaced when all connections break
	faults    int             // the percentage of requests that fail
	streaming bool            // the server supports initial events
}

type entry struct {
	rv   int
	what string // the event, as for harness.event
}

type page struct {
	rv   int
	rest []string
}

func newModel(h *harness, seed uint64) *model {
	return &model{h: h, rng: rand.New(rand.NewPCG(seed, 2)), rv: 100, objects: map[string]int{}, pages: map[string]page{},
		changed: make(chan struct{}), cut: make(chan struct{}), compacted: 100, streaming: seed/8%2 == 0}
}

// change creates, updates or deletes an object.
func (m *model) change() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rv++
	name := fmt.Sprintf("pod-%02d", m.rng.IntN(40))
	_, there := m.objects[name]
	what := "+"
	switch {
	case there && m.rng.IntN(3) == 0:
		what = "-"
		delete(m.objects, name)
	case there:
		what = "~"
	}
	if what != "-" {
		m.objects[name] = m.rv
	}
	m.log = append(m.log, entry{m.rv, fmt.Sprintf("%s%s@%d", what, name, m.rv)})
	m.wake(&m.changed)
}

func (m *model) wake(c *chan struct{}) {
	close(*c)
	*c = make(chan struct{})
}

func (m *model) breakAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wake(&m.cut)
}

// compact removes the log and the pages.
func (m *model) compact() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log, m.compacted = nil, m.rv
	clear(m.pages)
}

// restore sets the state to earlier objects and rv. It breaks all connections, as if the server had
// been stopped.
func (m *model) restore(objects map[string]int, rv int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects, m.rv, m.log, m.compacted = maps.Clone(objects), rv, nil, rv
	clear(m.pages)
	m.wake(&m.cut)
}

func (m *model) backup() (map[string]int, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.objects), m.rv
}

func (m *model) setFaults(percent int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = percent
}

// want returns the objects and the resourceVersion of the server, in the form that wantObjects and
// wantCurrent expect.
func (m *model) want() (string, string) {
	objects, rv := m.backup()
	return strings.Join(podsOf(objects), " "), strconv.Itoa(rv)
}

func podsOf(objects map[string]int) (pods []string) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		pods = append(pods, fmt.Sprintf("%s@%d", name, objects[name]))
	}
	return pods
}

func (m *model) serve(rw http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	cut, fault := m.cut, 0
	if m.rng.IntN(100) < m.faults {
		fault = 1 + m.rng.IntN(8)
	}
	limit := 50 + m.rng.IntN(3000)
	m.mu.Unlock()
	switch fault {
	case 1, 2, 3: // the connection breaks after some bytes
		rw = &brittle{ResponseWriter: rw, left: limit}
	case 4:
		deny([]int{500, 503, 403, 404, 401, 400, 410}[limit%7], "")(rw, r)
		return
	case 5:
		deny(429, strconv.Itoa(1+limit%5))(rw, r)
		return
	case 6:
		text(502, "<html>")(rw, r)
		return
	case 7:
		text(200, "<html>")(rw, r)
		return
	case 8:
		rw.Header().Set("Content-Type", contentType(m.h.enc))
		rw.Write([]byte("nonsense, and not little of it"))
		return
	}
	q := r.URL.Query()
	switch {
	case r.URL.Path == "/version":
		version("1.37")(rw, r)
	case q.Has("watch"):
		m.watch(rw, r, q, cut)
	default:
		m.list(rw, r, q)
	}
}

func (m *model) list(rw http.ResponseWriter, r *http.Request, q url.Values) {
	m.mu.Lock()
	p := page{m.rv, podsOf(m.objects)}
	if token := q.Get("continue"); token != "" {
		var ok bool
		if p, ok = m.pages[token]; !ok {
			m.mu.Unlock()
			deny(410, "")(rw, r)
			return
		}
	}
	if n, _ := strconv.Atoi(q.Get("resourceVersion")); n > m.rv {
		m.mu.Unlock()
		deny(504, "1", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})(rw, r)
		return
	}
	head := strconv.Itoa(p.rv)
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(p.rest) > limit {
		token := fmt.Sprintf("%d-%s", p.rv, p.rest[limit])
		m.pages[token] = page{p.rv, p.rest[limit:]}
		p.rest = p.rest[:limit]
		head += "/" + token
	}
	m.mu.Unlock()
	m.h.list(head, p.rest...)(rw, r)
}

func (m *model) watch(rw http.ResponseWriter, r *http.Request, q url.Values, cut chan struct{}) {
	rw.Header().Set("Content-Type", watchContentType(m.h.enc))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	deadline, bookmarks := time.After(time.Duration(seconds)*time.Second), time.NewTicker(time.Minute)
	defer bookmarks.Stop()
	at, _ := strconv.Atoi(q.Get("resourceVersion"))
	send, changed := m.initial(q, &at)
	bookmark := false
	for {
		for _, event := range send {
			rw.Write(m.h.event(event))
		}
		rw.(http.Flusher).Flush()
		if slices.Contains(send, "error@410") {
			return
		}
		if changed != nil {
			bookmark = false
			select {
			case <-changed:
			case <-bookmarks.C:
				bookmark = true
			case <-deadline:
				return
			case <-cut:
				panic(http.ErrAbortHandler)
			case <-r.Context().Done():
				return
			}
		}
		send, changed = m.since(&at, bookmark)
	}
}

// initial returns the events that a watch starts with, and sets *at to their version.
func (m *model) initial(q url.Values, at *int) (send []string, _ chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !q.Has("sendInitialEvents") {
		if *at < m.compacted {
			return []string{"error@410"}, nil
		}
		return nil, nil
	}
	for _, p := range podsOf(m.objects) {
		send = append(send, "+"+p)
	}
	if *at = m.rv; m.streaming {
		send = append(send, "end@"+strconv.Itoa(m.rv))
	}
	return send, nil
}

// since returns the events after the version in *at, and a channel that is closed at the next
// change. It sets *at to the version of the last event.
func (m *model) since(at *int, bookmark bool) (send []string, changed chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if *at < m.compacted && m.rv > *at {
		return []string{"error@410"}, nil // the changes after *at were compacted
	}
	for _, e := range m.log {
		if e.rv > *at {
			send = append(send, e.what)
			*at = e.rv
		}
	}
	if bookmark && m.rv >= *at {
		send = append(send, "bookmark@"+strconv.Itoa(m.rv))
	}
	return send, m.changed
}

// brittle is a ResponseWriter whose connection breaks after some bytes.
type brittle struct {
	http.ResponseWriter
	left int
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		b.ResponseWriter.Write(p[:len(p)+b.left])
		b.Flush()
		panic(http.ErrAbortHandler)
	}
	return b.ResponseWriter.Write(p)
}

func (b *brittle) Flush() { b.ResponseWriter.(http.Flusher).Flush() }
