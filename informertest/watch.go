package informertest

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// frame describes one event to send on a watch, and whether the watch continues, ends or breaks
// after the event.
type frame struct {
	change
	bookmark bool           // a bookmark, which watches without bookmarks omit
	garbled  bool           // send noise instead of the object
	status   *metav1.Status // send an ERROR event instead of the change
	last     last
	hold     <-chan struct{} // wait until this is closed before sending
}

// last selects whether a watch continues, ends or breaks at a frame.
type last uint8

const (
	goesOn   last = iota
	ended         // end the watch cleanly after the frame
	broken        // break the connection after the frame
	midEvent      // break the connection in the middle of the frame
)

// watcher is one open watch. The length of its queue is not limited, because a story makes a
// limited number of changes.
type watcher struct {
	from  uint64        // the requested resourceVersion; the server may not have reached it
	wake  chan struct{} // capacity 1: signals that queue is not empty
	queue []frame       // guarded by Server.mu
}

// send queues a frame. The caller holds the server's lock.
func (w *watcher) send(f frame) {
	w.queue = append(w.queue, f)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take empties the queue and returns it.
func (s *Server) take(w *watcher) []frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := w.queue
	w.queue = nil
	return queue
}

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, enc encoding, a Answer) {
	q := r.URL.Query()
	s.mu.Lock()
	initial := s.initial
	s.mu.Unlock()
	if status := refuseWatch(q, initial); status != nil {
		writeStatus(w, enc, status)
		return
	}
	mediaType := enc.mediaType()
	if !enc.isJSON() {
		mediaType += ";stream=watch"
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	if a.End {
		return
	}
	if a.Stall != nil && q.Get("sendInitialEvents") == "true" {
		<-r.Context().Done()
		return
	}
	if a.InStream {
		_, _ = w.Write(eventFrame(enc, "ERROR", statusBody(enc, a.Status)))
		return
	}
	sub := &watcher{wake: make(chan struct{}, 1), from: resourceversion.Number(q.Get("resourceVersion"))}
	s.subscribe(sub, q, a)
	defer s.unsubscribe(sub)
	s.pump(w, r, enc, sub, a.NoBookmarks || q.Get("allowWatchBookmarks") != "true")
}

// subscribe registers a watch and queues its first frames: the current state, the changes since the
// requested resourceVersion, or an error.
func (s *Server) subscribe(w *watcher, q url.Values, a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	from := w.from
	initial := q.Get("sendInitialEvents") == "true" && s.initial == Honoured
	switch {
	case initial || from == 0:
		if from > s.rv {
			w.send(frame{status: TooLarge(), last: ended})
			return
		}
		items := s.state("")
		for i, e := range items {
			if a.Cut > 0 && i == int(a.Cut*float64(len(items))) {
				w.send(frame{change: change{"ADDED", e}, last: midEvent})
				return
			}
			w.send(frame{change: change{"ADDED", e}})
		}
		if initial && !a.NoBookmarks {
			w.send(frame{change: s.bookmark(true), bookmark: true, hold: a.Hold})
		}
	case from < s.oldest:
		w.send(frame{status: Gone(), last: ended})
	default:
		for _, c := range s.history {
			if c.rv > from {
				w.send(frame{change: c})
			}
		}
	}
}

func (s *Server) unsubscribe(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// bookmark returns a bookmark at the server's resourceVersion. initialEnd marks it as the end of
// initial events. The caller holds the lock.
func (s *Server) bookmark(initialEnd bool) change {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceversion.Format(s.rv)}}
	if initialEnd {
		pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return change{"BOOKMARK", &entry{rv: s.rv, pod: pod}}
}

// pump sends the frames of a watch until the watch's deadline passes, a frame ends the watch, or
// the client disconnects. It sends no bookmarks if silent is true.
func (s *Server) pump(w http.ResponseWriter, r *http.Request, enc encoding, sub *watcher, silent bool) {
	out := http.NewResponseController(w)
	var deadline, tick <-chan time.Time
	if seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		deadline = time.After(time.Duration(seconds) * time.Second)
	}
	s.mu.Lock()
	if period := s.bookmarks; period > 0 && !silent {
		tick = time.Tick(period)
	}
	s.mu.Unlock()
	for {
		for _, f := range s.take(sub) {
			if f.bookmark && silent {
				continue
			}
			if f.hold != nil {
				_ = out.Flush()
				select {
				case <-f.hold:
				case <-r.Context().Done():
					return
				}
			}
			if !s.write(w, enc, f) {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-sub.wake:
		case <-tick:
			s.mu.Lock()
			if s.rv >= sub.from {
				sub.send(frame{change: s.bookmark(false), bookmark: true})
			}
			s.mu.Unlock()
		case <-deadline:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// write sends one frame and reports whether the watch continues.
func (s *Server) write(w http.ResponseWriter, enc encoding, f frame) bool {
	var bytes []byte
	switch {
	case f.status != nil:
		bytes = eventFrame(enc, "ERROR", statusBody(enc, f.status))
	case f.garbled && enc.isJSON():
		bytes = []byte(`{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":7}}` + "\n")
	case f.garbled:
		bytes = eventFrame(enc, "MODIFIED", object(enc, "v1", "Pod", []byte("\x0a\xff\x01noise")))
	case f.entry != nil:
		apiVersion, kind, _ := enc.types()
		bytes = eventFrame(enc, f.eventType, object(enc, apiVersion, kind, f.bytes(enc)))
	}
	if f.last == midEvent {
		bytes = bytes[:len(bytes)/2]
	}
	if _, err := w.Write(bytes); err != nil {
		return false
	}
	if f.last != goesOn {
		_ = http.NewResponseController(w).Flush()
	}
	if f.last == broken || f.last == midEvent {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	s.sent++
	s.mu.Unlock()
	return f.last == goesOn
}
