package sim

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"iter"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// servedWatch forwards a watch cache's response to a WATCH, and stores a copy for check. The copy
// has only a few kilobytes, because a world has few writes.
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

// Unwrap returns the wrapped writer, which http.ResponseController flushes.
func (s *servedWatch) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// check checks that each DELETED event is of an object that the WATCH's client may have: either the
// object was created at or before the resourceVersion at which the WATCH starts, or an earlier
// event of the WATCH contained it. Other checks do not notice such a violation, because informers
// ignore deletions of unknown objects.
func (s *servedWatch) check(hr *http.Request) {
	if s.code != 0 && s.code != http.StatusOK {
		return
	}
	q := hr.URL.Query()
	from, shown := q.Get("resourceVersion"), map[types.UID]bool{}
	for typ, o := range s.events() {
		if typ != watch.Deleted {
			shown[o.GetUID()] = true
		} else if !shown[o.GetUID()] && (q.Get("sendInitialEvents") == "true" || s.createdAfter(from, o.GetUID())) {
			s.run.violate("unseen-end", s.client, "WATCH from %q of %q: DELETED %v, which no event had", from, q.Get("labelSelector"), keyOf(o))
		}
	}
}

// createdAfter reports whether the object with this uid was created after a resourceVersion. "" and
// "0" are before all objects.
func (s *servedWatch) createdAfter(resourceVersion string, uid types.UID) (after bool) {
	s.run.cluster.Do(func(h *api.History) {
		rev, _ := h.Era().Parse(resourceVersion)
		after = h.Created(string(uid)) > rev
	})
	return after
}

// events returns an iterator over the complete events in the body. It skips ERROR events.
func (s *servedWatch) events() iter.Seq2[watch.EventType, metav1.Object] {
	return func(yield func(watch.EventType, metav1.Object) bool) {
		events := s.decoder()
		for n := 0; ; n++ {
			typ, object, err := events.Decode()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return
			}
			if err != nil {
				s.run.violate("object", s.client, "event %d of a WATCH: %v", n, err)
				return
			}
			if o, ok := object.(metav1.Object); ok && !yield(typ, o) {
				return
			}
		}
	}
}

// decoder returns client-go's decoder for the body.
func (s *servedWatch) decoder() *restwatch.Decoder {
	body := io.Reader(&s.body)
	if s.Header().Get("Content-Encoding") == "gzip" {
		if zr, err := gzip.NewReader(body); err == nil {
			body = zr
		} // otherwise the body ended inside the gzip header
	}
	mediaType, objects := runtime.ContentTypeJSON, runtime.Decoder(unstructured.UnstructuredJSONScheme)
	if s.run.cluster.Kind.Protobuf {
		mediaType, objects = runtime.ContentTypeProtobuf, scheme.Codecs.UniversalDeserializer()
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(body))
	return restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer), objects)
}
