package api

import (
	"cmp"
	"encoding/binary"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// watch is one WATCH in progress. The cluster's mu guards its fields.
type watch struct {
	server      *Server
	req         *request
	incarnation int
	era         *Era
	rev         int64 // the revision from which the client resumes; 0 if the request has none
	after       int64 // the watch sends only changes after this revision
	minimum     int64 // it sends nothing until the cache has reached this revision
	state       bool  // it sends the whole state before changes
	end         bool  // a bookmark follows the state
	stated      bool  // fill has just produced the whole state; schema is its schema
	schema      int
	deadline    time.Duration
	bookmark    time.Duration // the time of the next bookmark
	err         *failure      // to be sent as an ERROR event, which ends the watch
	done        bool
	sent        int // the number of events sent
	out         []byte
	last        [][]byte // the last events, which Repeat may send again
}

// watch starts a WATCH. It follows the table of parameters in the contract of WATCH.
func (s *Server) watch(r *request) (*watch, *failure) {
	c := s.cluster
	w := &watch{server: s, req: r, incarnation: s.incarnation, era: s.era}
	if r.initial != nil && r.match != string(metav1.ResourceVersionMatchNotOlderThan) || r.initial == nil && r.match != "" {
		return nil, invalid("resourceVersionMatch and sendInitialEvents go together")
	}
	s.advance()
	now := c.Now()
	timeout := cmp.Or(r.timeout, 45*time.Minute)
	w.deadline = now + timeout
	w.scheduleBookmark(now)
	var rev int64
	if r.rv != "" && r.rv != "0" {
		var ok bool
		if rev, ok = s.era.Parse(r.rv); !ok {
			return nil, badRequest("Invalid value: " + r.rv)
		}
	}
	initial := r.initial != nil && *r.initial
	switch {
	case initial:
		w.state, w.end, w.minimum = true, r.bookmarks, rev
		if r.rv == "" && !s.Stale {
			w.minimum = s.era.Head()
		}
	case rev == 0 && r.initial == nil:
		w.state = true
	case rev == 0:
		w.after = s.seen
	case rev < s.oldest():
		w.err = expired("too old resource version: " + r.rv + " (" + s.era.Format(s.oldest()) + ")")
	default:
		w.after, w.rev = rev, rev
	}
	if r.plan.has(ErrorEvent) && r.plan[ErrorEvent].M == 0 {
		w.err = failureOf(r.plan[ErrorEvent].N)
	}
	if w.minimum > 0 {
		w.bookmark = now + freshness // when the server stops waiting for minimum
	}
	return w, nil
}

// defaultBookmarks is the time between two bookmarks if Spec.Bookmarks is 0.
const defaultBookmarks = time.Minute

func (w *watch) scheduleBookmark(now time.Duration) {
	every := w.server.Bookmarks
	switch {
	case w.req.plan[OftenBookmarks].D > 0:
		every = w.req.plan[OftenBookmarks].D
	case w.req.plan.has(NoBookmarks) || !w.req.bookmarks:
		every = -1
	case every == 0:
		every = defaultBookmarks
	}
	if every < 0 {
		w.bookmark = w.deadline + time.Hour
		return
	}
	w.bookmark = now + every
	if early := w.deadline - 2*time.Second; early > now && early < w.bookmark {
		w.bookmark = early
	}
}

// next implements source.
func (w *watch) next(b *body) (changed <-chan struct{}, d time.Duration, err error) {
	c := w.server.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.done {
		return nil, 0, io.EOF
	}
	if w.incarnation != w.server.incarnation {
		return nil, 0, errBroken
	}
	d = w.fill()
	b.data, w.out = w.out, nil
	if w.req.gzip && len(b.data) > 0 {
		b.data = compress(b.data)
	}
	if w.stated && !w.done {
		w.stated = false
		era, schema := w.era.Index, w.schema
		b.whole = func() { c.complete(w.req, era, schema, 0) }
	}
	if w.done && len(b.data) == 0 {
		return nil, 0, io.EOF
	}
	return c.changed, max(d, 1), nil
}

// fill appends to w.out the events that are due. It returns the time until the next events may be
// due, if nothing changes before.
func (w *watch) fill() time.Duration {
	s := w.server
	s.advance()
	now := s.cluster.Now()
	if w.err != nil {
		w.fail(w.err)
		return 0
	}
	if w.minimum > s.seen {
		if now >= w.bookmark {
			w.fail(tooLarge())
			return 0
		}
		return s.until(w.bookmark)
	}
	if w.minimum > 0 {
		w.minimum = 0
		w.scheduleBookmark(now)
	}
	w.trick()
	if w.state {
		w.sendState()
	}
	for _, ch := range w.era.Since(w.after, s.seen) {
		w.change(ch)
		if w.done {
			return 0
		}
	}
	w.after = max(w.after, s.seen)
	if now >= w.deadline {
		w.done = true
	} else if now >= w.bookmark {
		// A watch may start after the cache's newest revision. kube-apiserver sends no bookmark that is
		// older than the start of the watch.
		if w.after == s.seen {
			w.sendBookmark(false)
		}
		w.scheduleBookmark(now)
	}
	return s.until(min(w.bookmark, w.deadline))
}

func (w *watch) sendState() {
	s := w.server
	w.state, w.schema = false, s.cluster.schema
	// Without the final bookmark, the client does not notice when the state is complete.
	w.stated = !w.end || !w.req.plan.has(NoBookmarks)
	for _, v := range w.era.At(s.seen) {
		if w.req.matches(v) {
			w.object("ADDED", Representation{Version: v, Schema: s.cluster.schema})
		}
	}
	w.after = s.seen
	if w.end && !w.req.plan.has(NoBookmarks) {
		w.sendBookmark(true)
	}
}

func (w *watch) change(ch Change) {
	schema := w.server.cluster.schema
	before, after := w.req.matches(ch.Old), w.req.matches(ch.New)
	switch {
	case before && after:
		w.object("MODIFIED", Representation{Version: ch.New, Schema: schema})
	case after:
		w.object("ADDED", Representation{Version: ch.New, Schema: schema})
	case before:
		w.object("DELETED", Representation{Version: ch.Old, Schema: schema, Gone: ch.Revision})
	}
}

// object appends an event with an object.
func (w *watch) object(t string, rep Representation) {
	c := w.server.cluster
	raw := c.object(encoding{Representation: rep, order: w.server.Order, protobuf: w.req.protobuf, partial: w.req.partial})
	if w.req.protobuf {
		apiVersion, kind := c.Kind.names(w.req.partial)
		raw = envelope(apiVersion, kind, raw)
	}
	w.frame(t, raw)
	c.logf("%v to %v: %s %v", w.server, w.req, t, rep)
}

func (w *watch) sendBookmark(initial bool) {
	c := w.server.cluster
	rv := w.era.Format(w.server.seen)
	c.logf("%v to %v: BOOKMARK %s initial=%v", w.server, w.req, rv, initial)
	apiVersion, kind := c.Kind.names(w.req.partial)
	if w.req.protobuf {
		meta := metav1.ObjectMeta{ResourceVersion: rv}
		if initial {
			meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		raw := marshal(&corev1.ConfigMap{ObjectMeta: meta})
		if w.req.partial {
			raw = marshal(&metav1.PartialObjectMetadata{ObjectMeta: meta})
		}
		w.frame("BOOKMARK", envelope(apiVersion, kind, raw))
		return
	}
	note := ""
	if initial {
		note = `"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"},`
	}
	w.frame("BOOKMARK", []byte(`{"apiVersion":"`+apiVersion+`","kind":"`+kind+`","metadata":{`+note+`"creationTimestamp":null,"resourceVersion":"`+rv+`"}}`))
}

// fail appends an ERROR event, which ends the watch.
func (w *watch) fail(f *failure) {
	raw := f.json()
	if w.req.protobuf {
		raw = envelope("v1", "Status", marshal((*metav1.Status)(f)))
	}
	w.done = true
	w.out = append(w.out, w.encode("ERROR", raw)...)
	w.server.cluster.logf("%v to %v: ERROR %d", w.server, w.req, f.Code)
}

// frame appends an event. If the plan contains Repeat, it also appends the last events again. If
// the plan contains ErrorEvent, it may append an ERROR event instead.
func (w *watch) frame(t string, raw []byte) {
	if w.done {
		return
	}
	if w.req.plan.has(ErrorEvent) && w.sent >= w.req.plan[ErrorEvent].M {
		w.fail(failureOf(w.req.plan[ErrorEvent].N))
		return
	}
	frame := w.encode(t, raw)
	w.out = append(w.out, frame...)
	w.sent++
	if !w.req.plan.has(Repeat) || t == "BOOKMARK" {
		return
	}
	w.last = append(w.last, frame)
	if len(w.last) > w.req.plan[Repeat].N {
		w.last = w.last[1:]
	}
	for _, f := range w.last {
		w.out = append(w.out, f...)
	}
}

func (w *watch) encode(t string, raw []byte) []byte {
	if w.req.protobuf {
		b := marshal(&metav1.WatchEvent{Type: t, Object: runtime.RawExtension{Raw: raw}})
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	if w.server.Order%2 == 1 {
		return []byte(`{"object":` + string(raw) + `,"type":"` + t + "\"}\n")
	}
	return []byte(`{"type":"` + t + `","object":` + string(raw) + "}\n")
}
