package wire

import (
	"bytes"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

func benchList(b *testing.B, enc Encoding) {
	body := encode(b, enc, podList(500))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	r := bytes.NewReader(body)
	var m Meta
	items := 0
	for b.Loop() {
		r.Reset(body)
		l := NewListReader(r, enc, Limits{})
		for {
			item, err := l.Next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = ReadMeta(enc, item, &m)
			}
			check.NoError(b, err)
			items++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(items), "ns/item")
}

func BenchmarkListProtobuf(b *testing.B) { benchList(b, Protobuf) }
func BenchmarkListJSON(b *testing.B)     { benchList(b, JSON) }

// BenchmarkListJSONText does the work of BenchmarkListJSON with the decoder of the package
// jsontext. docs/explanation/store.md compares the two.
func BenchmarkListJSONText(b *testing.B) {
	body := encode(b, JSON, podList(500))
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	list, item, text := new(jsontext.Decoder), new(jsontext.Decoder), new(bytes.Buffer)
	// A call of to advances d into the next object, up to the value of the given member.
	to := func(d *jsontext.Decoder, member string) {
		_, err := d.ReadToken()
		for name := jsontext.Value(nil); err == nil && string(name) != member; {
			if name != nil {
				if err = d.SkipValue(); err != nil {
					break
				}
			}
			name, err = d.ReadValue()
		}
		check.NoError(b, err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		list.Reset(bytes.NewReader(body), options...)
		to(list, `"items"`)
		_, err := list.ReadToken()
		for err == nil && list.PeekKind() != ']' {
			var value, meta jsontext.Value
			if value, err = list.ReadValue(); err != nil {
				break
			}
			*text = *bytes.NewBuffer(value)
			item.Reset(text, options...)
			to(item, `"metadata"`)
			_, err = item.ReadToken()
			for err == nil && item.PeekKind() != '}' {
				meta, err = item.ReadValue()
			}
			_ = meta
		}
		check.NoError(b, err)
	}
}

func benchWatch(b *testing.B, enc Encoding) {
	var events []watch.Event
	for _, p := range simPods(500) {
		events = append(events, watch.Event{Type: watch.Modified, Object: &p})
	}
	body := encodeEvents(b, enc, events)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	r := bytes.NewReader(body)
	var m Meta
	n := 0
	for b.Loop() {
		r.Reset(body)
		w := NewWatchReader(r, enc, Limits{})
		for {
			e, err := w.Next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = ReadMeta(enc, e.Object, &m)
			}
			check.NoError(b, err)
			n++
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkWatchProtobuf(b *testing.B) { benchWatch(b, Protobuf) }
func BenchmarkWatchJSON(b *testing.B)     { benchWatch(b, JSON) }

func BenchmarkReadMeta(b *testing.B) {
	for _, enc := range encodings {
		b.Run(enc.String(), func(b *testing.B) {
			object := bare(b, enc, &simPods(1)[0])
			b.SetBytes(int64(len(object)))
			b.ReportAllocs()
			var m Meta
			for b.Loop() {
				check.NoError(b, ReadMeta(enc, object, &m))
			}
		})
	}
}
