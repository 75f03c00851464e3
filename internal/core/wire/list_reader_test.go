package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

var readerShapes = map[string]func(io.Reader) io.Reader{
	"whole": func(r io.Reader) io.Reader { return r },
	"bytes": iotest.OneByteReader,
	"half":  iotest.HalfReader,
	"eof":   iotest.DataErrReader,
}

func TestListReaderReadsWhatAPIMachineryWrites(t *testing.T) {
	list := podList(40)
	for _, enc := range encodings {
		body := encode(t, enc, list)
		for shape, wrap := range readerShapes {
			t.Run(enc.String()+"/"+shape, func(t *testing.T) {
				l := NewListReader(wrap(bytes.NewReader(body)), enc, Limits{})
				items, err := readList(l)
				check.NoError(t, err)
				if len(items) != len(list.Items) {
					t.Fatalf("%d items, want %d", len(items), len(list.Items))
				}
				for i, item := range items {
					got := decodeObject(t, enc, l.ItemTypeMeta(), item).(*corev1.Pod)
					want := list.Items[i]
					got.TypeMeta = want.TypeMeta
					if d := cmp.Diff(&want, got); d != "" {
						t.Fatalf("item %d: %s", i, d)
					}
				}
				check.Equal(t, l.TypeMeta(), (TypeMeta{"v1", "PodList"}), "type")
				check.Equal(t, l.Meta(), (ListMeta{"4711", `to<ken"`, 77, "s < '1'"}), "meta")
				if l.Offset() != int64(len(body)) {
					t.Errorf("offset %d, want %d", l.Offset(), len(body))
				}
				if _, err := l.Next(); err != io.EOF {
					t.Errorf("after the end: %v", err)
				}
			})
		}
	}
}

// TestListReaderTruncated checks that a body that ends inside the list causes io.ErrUnexpectedEOF,
// and that the items before the cut are right.
func TestListReaderTruncated(t *testing.T) {
	for _, enc := range encodings {
		body := encode(t, enc, podList(1))
		whole, err := readList(NewListReader(bytes.NewReader(body), enc, Limits{}))
		check.NoError(t, err)
		for cut := range body {
			items, err := readList(NewListReader(bytes.NewReader(body[:cut]), enc, Limits{}))
			if err == nil {
				// The bytes after the list message have no meaning: two empty fields in protobuf, a newline in
				// JSON.
				if rest := string(body[cut:]); rest != "\n" && rest != envelopeEnd && rest != envelopeEnd[2:] {
					t.Fatalf("%v: cut at %d of %d: no error", enc, cut, len(body))
				}
			} else if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%v: cut at %d: %v", enc, cut, err)
			}
			for i, item := range items {
				if !bytes.Equal(item, whole[i]) {
					t.Fatalf("%v: cut at %d: item %d is wrong", enc, cut, i)
				}
			}
		}
	}
}

// TestListReaderPartialObjectMetadata checks that the reader reads a PartialObjectMetadataList and
// the metadata of its items.
func TestListReaderPartialObjectMetadata(t *testing.T) {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "8"}}
	for _, p := range simPods(3) {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta})
	}
	var m Meta
	for _, enc := range encodings {
		l := NewListReader(bytes.NewReader(encode(t, enc, list)), enc, Limits{})
		items, err := readList(l)
		if err != nil || len(items) != 3 || l.Meta().ResourceVersion != "8" || l.ItemTypeMeta().Kind != "PartialObjectMetadata" {
			t.Fatalf("%v: %d items, %v %v, %v", enc, len(items), l.TypeMeta(), l.Meta(), err)
		}
		for i, item := range items {
			check.NoError(t, ReadMeta(enc, item, &m))
			if d := cmp.Diff(wantMeta(list.Items[i].ObjectMeta), metaOf(&m)); d != "" {
				t.Error(d)
			}
		}
	}
}

func TestListReaderReadsStreamedLists(t *testing.T) {
	for _, enc := range encodings {
		for _, list := range []*corev1.PodList{podList(5), {}, {Items: oddPods()}} {
			want, err := readList(NewListReader(bytes.NewReader(encode(t, enc, list)), enc, Limits{}))
			if err != nil || len(want) != len(list.Items) {
				t.Fatalf("%v: %d items, %v", enc, len(want), err)
			}
			l := NewListReader(bytes.NewReader(encodeStreaming(t, enc, list)), enc, Limits{})
			got, err := readList(l)
			if err != nil || l.Meta().ResourceVersion != list.ResourceVersion || l.TypeMeta().Kind != "PodList" {
				t.Fatalf("%v: %v %v, %v", enc, l.TypeMeta(), l.Meta(), err)
			}
			check.Equal(t, cmp.Diff(want, got), "", "%v", enc)
		}
	}
}

// TestListReaderItemTypeMetaOfItems checks ItemTypeMeta after the first item and at the end of the
// list. Lists of custom resources state their type after the items; other lists here state it
// before the items, or not at all.
func TestListReaderItemTypeMetaOfItems(t *testing.T) {
	widget := TypeMeta{"shop.example/v1", "Widget"}
	const item = `{"apiVersion":"shop.example/v1","kind":"Widget"}`
	for body, want := range map[string][2]TypeMeta{ // the type after the first item, and at the end
		`{"apiVersion":"shop.example/v1","items":[` + item + `,{}],"kind":"WidgetList"}`:    {widget, widget},
		`{"items":[` + item + `],"apiVersion":"v1","kind":"PodList"}`:                       {widget, {"v1", "Pod"}},
		`{"kind":"PodList","apiVersion":"v1","items":[` + item + `]}`:                       {{"v1", "Pod"}, {"v1", "Pod"}},
		`{"kind":"Widgets","apiVersion":"shop.example/v1","items":[` + item + `]}`:          {widget, widget},
		`{"items":[{},` + item + `]}`:                                                       {{}, widget},
		`{"items":[` + item + `,{"apiVersion":"v1","kind":"Pod"}]}`:                         {widget, widget},
		`{"items":[{"kind":1,"apiVersion":[]}],"apiVersion":"v1","kind":"PodList"}`:         {{}, {"v1", "Pod"}},
		`{"items":[{"kind":null,"apiVersion":"v1"}],"apiVersion":"v1","kind":"PodList"}`:    {{}, {"v1", "Pod"}},
		`{"items":[{"ki\u006ed":"Wid\u0067et","apiVersion":"shop.example/v1","x":"kind"}]}`: {widget, widget},
	} {
		for shape, wrap := range readerShapes {
			l := NewListReader(wrap(strings.NewReader(body)), JSON, Limits{})
			if _, err := l.Next(); err != nil || l.ItemTypeMeta() != want[0] {
				t.Errorf("%s, %s: first %v, %v", body, shape, l.ItemTypeMeta(), err)
			}
			if _, err := readList(l); err != nil || l.ItemTypeMeta() != want[1] {
				t.Errorf("%s, %s: at the end %v, %v", body, shape, l.ItemTypeMeta(), err)
			}
		}
	}
}

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

// TestWatchReaderTruncated checks that a watch may end between two events, and that a body that
// ends inside an event causes io.ErrUnexpectedEOF.
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

// TestListForms checks that ListWriter writes, for each form, the same JSON as apimachinery's
// serializer.
func TestListForms(t *testing.T) {
	count := int64(3)
	for _, meta := range []metav1.ListMeta{
		{ResourceVersion: "7"},
		{ResourceVersion: "7", Continue: "<next>"},
		{ResourceVersion: "7", Continue: "next", RemainingItemCount: &count},
	} {
		pods := podList(2)
		pods.ListMeta = meta
		none := &corev1.PodList{ListMeta: meta, Items: []corev1.Pod{}}
		partial := &metav1.PartialObjectMetadataList{ListMeta: meta, Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
		partialNone := &metav1.PartialObjectMetadataList{ListMeta: meta}
		widgets := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "shop.example/v1", "kind": "WidgetList"}}
		widgets.SetResourceVersion(meta.ResourceVersion)
		widgets.SetContinue(meta.Continue)
		widgets.SetRemainingItemCount(meta.RemainingItemCount)
		noWidgets := widgets.DeepCopy()
		widgets.Items = []unstructured.Unstructured{{Object: map[string]any{"kind": "Widget", "apiVersion": "shop.example/v1", "a": "<"}}, {Object: map[string]any{"kind": "Widget"}}}
		for list, form := range map[runtime.Object]ListForm{
			pods: TypedList, none: TypedList, partial: MetadataList, partialNone: MetadataList, widgets: UnstructuredList, noWidgets: UnstructuredList,
		} {
			want := encodeStreaming(t, JSON, list)
			if got := rewrite(t, want, form); !bytes.Equal(got, want) {
				t.Errorf("form %d: %s", form, cmp.Diff(string(want), string(got)))
			}
		}
	}
}

// rewrite reads the list in body and writes it with a ListWriter.
func rewrite(t *testing.T, body []byte, form ListForm) []byte {
	t.Helper()
	var list struct {
		Kind, APIVersion string
		Metadata         metav1.ListMeta
		Items            []json.RawMessage
	}
	check.NoError(t, json.Unmarshal(body, &list))
	m := ListMeta{ResourceVersion: list.Metadata.ResourceVersion, Continue: list.Metadata.Continue, RemainingItemCount: -1}
	if n := list.Metadata.RemainingItemCount; n != nil {
		m.RemainingItemCount = *n
	}
	var out bytes.Buffer
	w := NewListWriter(&out, JSON, TypeMeta{list.APIVersion, list.Kind}, m, 0)
	w.Form = form
	for _, item := range list.Items {
		check.NoError(t, w.WriteItem(item))
	}
	check.NoError(t, w.Close())
	return out.Bytes()
}
