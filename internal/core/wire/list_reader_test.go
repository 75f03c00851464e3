package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// A list that ends anywhere but at its end is an error, and what was returned before is right.
func TestListReaderTruncated(t *testing.T) {
	for _, enc := range encodings {
		body := encode(t, enc, podList(1))
		whole, err := readList(NewListReader(bytes.NewReader(body), enc, Limits{}))
		check.NoError(t, err)
		for cut := range body {
			items, err := readList(NewListReader(bytes.NewReader(body[:cut]), enc, Limits{}))
			if err == nil {
				// The bytes after the list itself have no content: two empty fields, or a line
				// end.
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

// A list of metadata alone is a list like any other.
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

// Lists of custom resources have their kind after the items; the items state their own.
func TestListReaderItemTypeMetaOfItems(t *testing.T) {
	widget := TypeMeta{"shop.example/v1", "Widget"}
	const item = `{"apiVersion":"shop.example/v1","kind":"Widget"}`
	for body, want := range map[string][2]TypeMeta{ // after the first item, and at the end
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
