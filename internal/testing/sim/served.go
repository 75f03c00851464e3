package sim

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// servedWatch passes on what a watch cache answers to a WATCH, and keeps it for check until the
// WATCH ends: some kilobytes, since a world has few writes.
type servedWatch struct {
	http.ResponseWriter
	run    *run
	client *client
	code   int
	body   bytes.Buffer
}

func (s *servedWatch) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func (s *servedWatch) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p)
	s.body.Write(p[:n])
	return n, err
}

// Unwrap returns the writer that http.ResponseController flushes.
func (s *servedWatch) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// check checks that each DELETED event is the end of an object that the client of the WATCH may
// have: the object is no newer than the resourceVersion from which the client watches, or an event
// before had it. Informers ignore other ends, so that no handler shows them.
func (s *servedWatch) check(hr *http.Request) {
	if s.code != 0 && s.code != http.StatusOK {
		return
	}
	q := hr.URL.Query()
	from, shown := q.Get("resourceVersion"), map[string]bool{}
	for _, e := range s.events() {
		if e.typ != "DELETED" {
			shown[e.uid] = true
		} else if !shown[e.uid] && (q.Get("sendInitialEvents") == "true" || s.createdAfter(from, e.uid)) {
			s.run.violate("unseen-end", s.client, "WATCH from %q of %q: DELETED %v, which no event had", from, q.Get("labelSelector"), e.key)
		}
	}
}

// createdAfter reports whether the object with a uid was created after a resourceVersion. "" and
// "0" are before all objects.
func (s *servedWatch) createdAfter(resourceVersion, uid string) (after bool) {
	s.run.cluster.Do(func(h *api.History) {
		rev, _ := h.Era().Parse(resourceVersion)
		after = h.Created(uid) > rev
	})
	return after
}

// watchEvent is an event as a WATCH has it. Bookmarks and errors have no key.
type watchEvent struct {
	typ string
	key api.Key
	uid string
}

// events returns the events that the body has in full.
func (s *servedWatch) events() (events []watchEvent) {
	body := s.body.Bytes()
	if s.Header().Get("Content-Encoding") == "gzip" {
		zr, err := gzip.NewReader(&s.body)
		if err != nil {
			return nil
		}
		body, _ = io.ReadAll(zr) // the last member may be cut off
	}
	next := jsonEvents(body)
	if s.run.cluster.Kind.Protobuf {
		next = protobufEvents(body)
	}
	for {
		var o metav1.ObjectMeta
		typ, err := next(&o)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return events
		}
		if err != nil {
			s.run.violate("object", s.client, "event %d of a WATCH: %v", len(events), err)
			return events
		}
		events = append(events, watchEvent{typ, api.Key{Namespace: o.Namespace, Name: o.Name}, string(o.UID)})
	}
}

// jsonEvents returns a function that reads the next event's type, and metadata into its argument.
func jsonEvents(body []byte) func(*metav1.ObjectMeta) (string, error) {
	events := json.NewDecoder(bytes.NewReader(body))
	return func(meta *metav1.ObjectMeta) (string, error) {
		e := struct {
			Type   string
			Object struct{ Metadata *metav1.ObjectMeta }
		}{}
		e.Object.Metadata = meta
		err := events.Decode(&e)
		return e.Type, err
	}
}

// protobufEvents is jsonEvents for events with ConfigMaps as protobuf.
func protobufEvents(body []byte) func(*metav1.ObjectMeta) (string, error) {
	frames := bytes.NewReader(body)
	return func(meta *metav1.ObjectMeta) (string, error) {
		var size uint32
		if err := binary.Read(frames, binary.BigEndian, &size); err != nil {
			return "", err
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(frames, frame); err != nil {
			return "", err
		}
		var e metav1.WatchEvent
		if err := e.Unmarshal(frame); err != nil || e.Type == "ERROR" {
			return e.Type, err
		}
		var u runtime.Unknown
		if err := u.Unmarshal(e.Object.Raw[len("k8s\x00"):]); err != nil {
			return "", err
		}
		var cm corev1.ConfigMap
		err := cm.Unmarshal(u.Raw)
		*meta = cm.ObjectMeta
		return e.Type, err
	}
}
