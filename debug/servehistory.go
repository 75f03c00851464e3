package debug

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/core/store"
)

// longestHistory limits the duration of a history that is not a stream.
const longestHistory = 5 * time.Minute

// historyReport is the history of one object.
type historyReport struct {
	Time            time.Time `json:"time"`
	Key             string    `json:"key"`
	Held            bool      `json:"held"` // the store has the object now
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Changes         []change  `json:"changes"`        // the last ones
	More            int       `json:"more,omitempty"` // changes before those
}

// objectsOf returns the object source that a request names.
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

// openHistory returns the history that a request asks for, with a report of the current object. If
// there is none, it answers the request and reports false.
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

// add adds a change, and drops the first if there are too many.
func (r *historyReport) add(c change) error {
	if len(r.Changes) == maxChanges {
		r.Changes = append(r.Changes[:0], r.Changes[1:]...)
		r.More++
	}
	r.Changes = append(r.Changes, c)
	return nil
}

// serveHistory answers with the changes in the log, and those during the requested time.
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
	h.cursor.Close() // the store keeps nothing while the client reads
	writeJSON(w, report)
}

// streamHistory sends the current object as an event, and then each change.
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
