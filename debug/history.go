package debug

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
)

const (
	// maxLines limits the lines of one change. maxChanges limits the changes in one response.
	maxLines   = 100
	maxChanges = 200
	// readBatch is the number of changes that one call reads from the cursor.
	readBatch = 128
)

type change struct {
	// Time is when the history observed the change. It is nil if the change log already contained the
	// change when the request started.
	Time *time.Time `json:"time,omitempty"`
	// Type is ADDED, MODIFIED or DELETED.
	Type            string   `json:"type"`
	ResourceVersion string   `json:"resourceVersion,omitempty"`
	Coalesced       bool     `json:"coalesced,omitempty"` // the change represents several changes
	Lines           []string `json:"lines"`               // the differences, one per path
	More            int      `json:"more,omitempty"`      // the number of omitted lines
}

// history reads the changes of one object for one request. The store retains the changes that the
// history's cursor has not read, until the cursor is closed at the end of the request.
type history struct {
	objects registry.ProxyObjects
	key     string
	cursor  *store.Cursor
	began   uint64 // the store's revision when reading started
	batch   [readBatch]store.Change
}

var (
	errNotReachable = errors.New("the store changes too fast, or was closed")
	// errNotDecoded replaces the cause, which might contain a hidden value.
	errNotDecoded = errors.New("it cannot be decoded")
)

// newHistory returns a history of the object's changes in the change log and of its later changes.
// The caller must close the history's cursor.
func newHistory(objects registry.ProxyObjects, key string) (*history, error) {
	for range 10 { // retry if the log drops the first revision between the search and its use
		h := &history{objects: objects, key: key, began: objects.Store.Revision()}
		first := sort.Search(int(h.began), func(revision int) bool {
			c, err := objects.Store.CursorAt(uint64(revision))
			if err == nil {
				c.Close()
			}
			return err == nil || !errors.Is(err, store.ErrTrimmed)
		})
		var err error
		if h.cursor, err = objects.Store.CursorAt(uint64(first)); err == nil {
			return h, nil
		}
	}
	return nil, errNotReachable
}

// next calls tell with each change of the object that the store already has. It does not wait for
// later changes. more is false if no change can follow, because the store is closed.
func (h *history) next(tell func(change) error) (more bool, err error) {
	for {
		n := h.cursor.Next(h.batch[:])
		for i := range h.batch[:n] {
			if c := &h.batch[i]; c.Key() == h.key && err == nil {
				err = tell(h.changeOf(c))
			}
		}
		clear(h.batch[:n])
		if err != nil || n == 0 {
			return !h.cursor.Closed(), err
		}
	}
}

// follow calls tell with each change of the object as soon as the store has it. It returns when the
// context ends, the store is closed, or tell or alive returns an error. While no change arrives, it
// calls alive at intervals.
func (h *history) follow(ctx context.Context, tell func(change) error, alive func() error) error {
	tick := time.Tick(10 * streamEvery)
	for {
		if more, err := h.next(tell); err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.cursor.Ready():
		case <-tick:
			if err := alive(); err != nil {
				return err
			}
		}
	}
}

// changeOf describes a change of the object in the store.
func (h *history) changeOf(c *store.Change) change {
	out := change{Type: "MODIFIED", Coalesced: c.Coalesced, Lines: []string{}}
	if c.Revision > h.began {
		out.Time = new(time.Now())
	}
	if c.ResourceVersion != 0 {
		out.ResourceVersion = fmt.Sprint(c.ResourceVersion)
	}
	switch {
	case c.Old == nil:
		out.Type = "ADDED"
		return out
	case c.New == nil:
		out.Type = "DELETED"
		return out
	}
	before, _, failed := h.decode(c.Old)
	after, secret, err := h.decode(c.New)
	if err = cmp.Or(failed, err); err != nil {
		out.Lines = []string{err.Error()}
		return out
	}
	changed := humanize.Diff(before, after, humanize.DiffOptions{Secret: secret, Env: true})
	for _, one := range changed[:min(len(changed), maxLines)] {
		out.Lines = append(out.Lines, one.Line(0))
	}
	out.More = max(len(changed)-maxLines, 0)
	return out
}

// decode returns an object as decoded JSON, and whether the object may be a Secret. An object of
// unknown kind may be a Secret; this includes metadata, which states the kind PartialObjectMetadata
// in place of the object's kind.
func (h *history) decode(o *store.Object) (object map[string]any, secret bool, err error) {
	value, err := h.objects.Decode(o)
	if err != nil {
		return nil, true, errNotDecoded
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = kjson.Unmarshal(text, &object)
	}
	if err != nil {
		return nil, true, errNotDecoded
	}
	kind, _ := object["kind"].(string)
	if isUnknown(kind) {
		kind = h.objects.Kind.Kind
		object["apiVersion"], object["kind"] = h.objects.Kind.APIVersion, kind
	}
	_, typed := value.(*corev1.Secret)
	return object, typed || isUnknown(kind) || kind == "Secret", nil
}

// isUnknown reports whether a kind does not identify the object's type.
func isUnknown(kind string) bool { return kind == "" || kind == source.PartialObjectMetadata }

// longestHistory limits the duration of a history that is not a stream.
const longestHistory = 5 * time.Minute

type historyReport struct {
	Time            time.Time `json:"time"`
	Key             string    `json:"key"`
	Held            bool      `json:"held"` // the store contains the object now
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Changes         []change  `json:"changes"`        // the newest maxChanges changes
	More            int       `json:"more,omitempty"` // number of older changes
}

// objectsOf returns the store of the informer, or of the resource of a proxy, that a request names.
func objectsOf(q url.Values) (registry.ProxyObjects, bool) {
	for _, p := range registry.Proxies() {
		if p.Name == q.Get("proxy") {
			return p.Value.Objects(q.Get("resource"))
		}
	}
	for _, e := range engine.Running() {
		if q.Get("proxy") != "" || e.Name != q.Get("informer") {
			continue
		}
		objects := registry.ProxyObjects{Store: e.Value.Store(), Decode: (*store.Object).Decoded}
		for _, s := range e.Value.Statuses() {
			if s.ItemType.Kind != "" {
				objects.Kind = s.ItemType
			}
		}
		return objects, true
	}
	return registry.ProxyObjects{}, false
}

// openHistory returns the history of the object that a request names, and a report of the object's
// current state. If the request is invalid or names no running informer or resource, openHistory
// answers it with an error and returns false.
func openHistory(w http.ResponseWriter, r *http.Request) (h *history, now historyReport, ok bool) {
	q := r.URL.Query()
	objects, ok := objectsOf(q)
	key := q.Get("key")
	switch {
	case key == "":
		http.Error(w, "which object? key=NAMESPACE/NAME, or key=NAME", http.StatusBadRequest)
		return nil, now, false
	case !ok:
		http.Error(w, "no such informer or resource is running", http.StatusNotFound)
		return nil, now, false
	}
	h, err := newHistory(objects, key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return nil, now, false
	}
	now = historyReport{Time: time.Now(), Key: key, Changes: []change{}}
	if o, held := objects.Store.Get(key); held {
		now.Held, now.ResourceVersion = true, o.ResourceVersion()
	}
	return h, now, true
}

// add adds a change. If the report is full, it drops the oldest change.
func (r *historyReport) add(c change) error {
	if len(r.Changes) == maxChanges {
		r.Changes = append(r.Changes[:0], r.Changes[1:]...)
		r.More++
	}
	r.Changes = append(r.Changes, c)
	return nil
}

// serveHistory answers with the object's changes that are still in the change log, and the changes
// during the requested time.
func serveHistory(w http.ResponseWriter, r *http.Request) {
	wait := time.Duration(0)
	if text := r.URL.Query().Get("for"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > longestHistory {
			http.Error(w, "for: want a time such as 30s, of five minutes at most", http.StatusBadRequest)
			return
		}
	}
	h, report, ok := openHistory(w, r)
	if !ok {
		return
	}
	defer h.cursor.Close()
	_, err := h.next(report.add)
	if wait > 0 && err == nil && r.Method != http.MethodHead {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		err = h.follow(ctx, report.add, func() error { return nil })
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return // the client has disconnected
	}
	if o, held := h.objects.Store.Get(h.key); held {
		report.Held, report.ResourceVersion = true, o.ResourceVersion()
	} else {
		report.Held, report.ResourceVersion = false, ""
	}
	h.cursor.Close() // so that the store retains nothing while the client reads
	writeJSON(w, report)
}

// streamHistory sends the current object as an event, and then each change as an event.
func streamHistory(w http.ResponseWriter, r *http.Request) {
	h, now, ok := openHistory(w, r)
	if !ok {
		return
	}
	defer h.cursor.Close()
	to, ok := newEvents(w, r)
	if !ok || to.send(now) != nil {
		return
	}
	_ = h.follow(r.Context(), func(c change) error { return to.send(c) }, to.alive)
}
