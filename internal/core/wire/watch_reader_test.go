package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

func sampleEvents(n int) []watch.Event {
	var events []watch.Event
	types := []watch.EventType{watch.Added, watch.Modified, watch.Deleted}
	for i, p := range simPods(n) {
		events = append(events, watch.Event{Type: types[i%3], Object: &p})
	}
	gone := apierrors.NewResourceExpired("too old resource version: 1 (2)").Status()
	return append(events,
		watch.Event{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "99", Annotations: map[string]string{initialEventsEnd: "true"},
		}}},
		watch.Event{Type: watch.Error, Object: &gone})
}

func TestWatchReaderReadsWhatAPIMachineryWrites(t *testing.T) {
	want := sampleEvents(12)
	for _, enc := range encodings {
		body := encodeEvents(t, enc, want)
		for shape, wrap := range readerShapes {
			t.Run(enc.String()+"/"+shape, func(t *testing.T) {
				w := NewWatchReader(wrap(bytes.NewReader(body)), enc, Limits{})
				events, err := readWatch(w)
				check.NoError(t, err)
				if len(events) != len(want) {
					t.Fatalf("%d events, want %d", len(events), len(want))
				}
				for i, e := range events {
					check.Equal(t, e.Type.String(), string(want[i].Type), "event %d", i)
					got := decodeObject(t, enc, e.TypeMeta, e.Object)
					if d := cmp.Diff(withKind(t, want[i].Object), withKind(t, got)); d != "" {
						t.Fatalf("event %d: %s", i, d)
					}
				}
				if w.Offset() != int64(len(body)) || w.Buffered() != 0 {
					t.Errorf("offset %d, buffered %d; want %d, 0", w.Offset(), w.Buffered(), len(body))
				}
				checkLastTwo(t, enc, events[len(events)-2:])
			})
		}
	}
}

func checkLastTwo(t *testing.T, enc Encoding, events []Event) {
	t.Helper()
	var m Meta
	check.NoError(t, ReadMeta(enc, events[0].Object, &m))
	if string(m.ResourceVersion) != "99" || !m.InitialEventsEnd() {
		t.Errorf("bookmark: resourceVersion %q, end of initial events %v", m.ResourceVersion, m.InitialEventsEnd())
	}
	err := DecodeStatus(enc, events[1].Object)
	var status *StatusError
	if !errors.As(err, &status) || !apierrors.IsResourceExpired(err) {
		t.Errorf("ERROR event: %v", err)
	}
}

// A watch may end between two events; anywhere else it is an error.
func TestWatchReaderTruncated(t *testing.T) {
	for _, enc := range encodings {
		body := encodeEvents(t, enc, sampleEvents(1))
		border := map[int64]int{0: 0}
		w := NewWatchReader(bytes.NewReader(body), enc, Limits{})
		for {
			if _, err := w.Next(); err != nil {
				break
			}
			border[w.Offset()] = len(border)
		}
		for cut := range body {
			w := NewWatchReader(bytes.NewReader(body[:cut]), enc, Limits{})
			events, err := readWatch(w)
			n, clean := border[int64(cut)]
			if enc == JSON && cut > 0 && body[cut-1] == '\n' {
				n, clean = border[int64(cut-1)]
			}
			switch {
			case clean && (err != nil || len(events) != n):
				t.Fatalf("%v: cut at %d: %d events, %v; want %d", enc, cut, len(events), err, n)
			case !clean && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Fatalf("%v: cut at %d: %v", enc, cut, err)
			case clean != (w.Buffered() == 0):
				t.Fatalf("%v: cut at %d: %d bytes buffered", enc, cut, w.Buffered())
			}
		}
	}
}
