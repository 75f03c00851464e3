package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/testing/check"
)

// message returns a protobuf message. Its arguments are field numbers, each followed by the field's
// content.
func message(fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = protowire.AppendTag(b, protowire.Number(fields[i].(int)), protowire.BytesType)
		switch v := fields[i+1].(type) {
		case string:
			b = protowire.AppendString(b, v)
		case []byte:
			b = protowire.AppendBytes(b, v)
		}
	}
	return b
}

func unknown(fields ...any) []byte { return append([]byte(protoMagic), message(fields...)...) }

var podListType = message(1, "v1", 2, "PodList")

type hostile struct {
	name string
	body []byte
	want error
	text string // part of the error's text
}

func checkHostile(t *testing.T, tests []hostile, read func(body []byte) error) {
	t.Helper()
	for _, test := range tests {
		err := read(test.body)
		var syntax *SyntaxError
		if !errors.Is(err, test.want) || !errors.As(err, &syntax) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.want, test.text)
			continue
		}
		if syntax.Offset < 0 || syntax.Offset > int64(len(test.body)) {
			t.Errorf("%s: offset %d of %d", test.name, syntax.Offset, len(test.body))
		}
	}
}

func TestListReaderProtobufHostile(t *testing.T) {
	meta := message(2, "1")
	huge := append([]byte(protoMagic), message(1, podListType)...)
	huge = append(huge, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f) // a list message of 4 TB
	// One group starts inside another group. Both are field 3, and only one of them ends.
	group := []byte{0x1b, 0x1b, 0x1c}
	tests := []hostile{
		{"empty", nil, io.ErrUnexpectedEOF, ""},
		{"json", []byte(`{"kind":"PodList"}`), ErrMalformed, "k8s"},
		{"no list", unknown(1, podListType), io.ErrUnexpectedEOF, "no list"},
		{"type after the list", unknown(2, meta, 1, podListType), ErrMalformed, "where a list was expected"},
		{"type twice", unknown(1, podListType, 1, podListType, 2, meta), ErrMalformed, "twice"},
		{"type again after the list", unknown(1, podListType, 2, message(1, meta), 1, podListType), ErrMalformed, "twice"},
		{"two lists", unknown(1, podListType, 2, message(1, meta), 2, message(1, meta)), ErrMalformed, "twice"},
		{"a pod", unknown(1, message(1, "v1", 2, "Pod"), 2, message(1, meta)), ErrMalformed, "where a list was expected"},
		{"a List", unknown(1, message(1, "v1", 2, "List"), 2, message(1, meta)), ErrMalformed, "in an envelope"},
		{"gzipped", unknown(1, podListType, 3, "gzip", 2, message(1, meta)), ErrMalformed, "content encoding"},
		{"gzipped, after the list", unknown(1, podListType, 2, message(1, meta), 3, "gzip"), ErrMalformed, "content encoding"},
		{"json inside", unknown(1, podListType, 4, "application/json", 2, "{}"), ErrMalformed, "content type"},
		{"metadata twice", unknown(1, podListType, 2, message(1, meta, 1, meta)), ErrMalformed, "metadata twice"},
		{"resourceVersion twice", unknown(1, podListType, 2, message(1, append(meta, meta...))), ErrMalformed, "twice"},
		{"4 TB announced", huge, io.ErrUnexpectedEOF, ""},
		{"item of 4 TB", append(bytes.Clone(huge), 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f), ErrTooLarge, "item"},
		{"item beyond list", unknown(1, podListType, 2, []byte{0x12, 5, 1}), ErrMalformed, "beyond the list"},
		{"item not bytes", unknown(1, podListType, 2, []byte{0x10, 5}), ErrMalformed, "not a message"},
		{"field 0", unknown(1, podListType, 2, []byte{0x02, 0}), ErrMalformed, "field number 0"},
		{"endless varint", unknown(1, podListType, 2, bytes.Repeat([]byte{0xff}, 11)), ErrMalformed, "varint"},
		{"varint beyond list", append(unknown(1, podListType, 2, []byte{0xff}), 0x01), ErrMalformed, "beyond the list"},
		{"open group", unknown(1, podListType, 2, group), ErrMalformed, "beyond the list"},
		{"group ends alone", unknown(1, podListType, 2, []byte{0x1c}), ErrMalformed, "wire type 4"},
		{"groups too deep", unknown(1, podListType, 2, bytes.Repeat([]byte{0x1b}, 20_000)), ErrMalformed, "wire type 3"},
		{"group too large", unknown(1, podListType, 2, append([]byte{0x1b}, message(1, strings.Repeat("x", 2<<20), 3, "")...)), ErrTooLarge, "group"},
		{"skipped field beyond list", unknown(1, podListType, 2, []byte{0x1a, 9, 1}), ErrMalformed, "beyond the list"},
	}
	checkHostile(t, tests, func(body []byte) error {
		_, err := readList(NewListReader(bytes.NewReader(body), Protobuf, Limits{}))
		return err
	})
}

// TestListReaderProtobufUnknownFields checks that the reader skips unknown fields in every message.
func TestListReaderProtobufUnknownFields(t *testing.T) {
	odd := message(9, "nine", 300, strings.Repeat("x", 200_000))
	odd = protowire.AppendTag(odd, 10, protowire.VarintType)
	odd = protowire.AppendVarint(odd, 1<<63)
	odd = protowire.AppendTag(odd, 11, protowire.Fixed32Type)
	odd = protowire.AppendFixed32(odd, 1)
	odd = protowire.AppendTag(odd, 12, protowire.Fixed64Type)
	odd = protowire.AppendFixed64(odd, 1)
	odd = protowire.AppendTag(odd, 13, protowire.StartGroupType)
	odd = append(odd, message(1, "in a group")...)
	odd = protowire.AppendTag(odd, 13, protowire.EndGroupType)

	list := slicesConcat(odd, message(1, append(message(2, "5"), odd...)), odd, message(2, "item 1", 2, ""), odd, message(2, "item 2"))
	body := slicesConcat([]byte(protoMagic), odd, message(1, append(bytes.Clone(podListType), odd...)), odd, message(2, list), odd)
	for name, wrap := range readerShapes {
		l := NewListReader(wrap(bytes.NewReader(body)), Protobuf, Limits{})
		items, err := readList(l)
		if err != nil || string(bytes.Join(items, []byte("|"))) != "item 1||item 2" || l.Meta().ResourceVersion != "5" {
			t.Errorf("%s: %q %v %v", name, items, l.Meta(), err)
		}
	}
}

func slicesConcat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestListReaderJSONHostile(t *testing.T) {
	deep := strings.Repeat(`[`, MaxDepth)
	tests := []hostile{
		{"empty", nil, io.ErrUnexpectedEOF, ""},
		{"byte order mark", []byte("\xef\xbb\xbf{}"), ErrMalformed, "byte order mark"},
		{"protobuf", []byte("k8s\x00"), ErrMalformed, "protobuf"},
		{"array", []byte("[]"), ErrMalformed, "not an object"},
		{"null", []byte("null"), ErrMalformed, "not an object"},
		{"no list", []byte(`{"a":1}`), ErrMalformed, "without items"},
		{"a pod", []byte(`{"kind":"Pod","spec":{}}`), ErrMalformed, `"Pod" without items`},
		{"items no array", []byte(`{"items":{}}`), ErrMalformed, "not an array"},
		{"items twice", []byte(`{"items":[],"it\u0065ms":[]}`), ErrMalformed, "twice"},
		{"kind twice", []byte(`{"kind":"a","kind":"b"}`), ErrMalformed, "twice"},
		{"kind a number", []byte(`{"kind":1}`), ErrMalformed, "not a string"},
		{"metadata twice", []byte(`{"metadata":{},"metadata":{},"items":[]}`), ErrMalformed, "twice"},
		{"metadata an array", []byte(`{"metadata":[],"items":[]}`), ErrMalformed, "not an object"},
		{"continue twice", []byte(`{"metadata":{"continue":"","continue":"a"},"items":[]}`), ErrMalformed, "twice"},
		{"count a fraction", []byte(`{"metadata":{"remainingItemCount":1.5}}`), ErrMalformed, "not a number"},
		{"item a number", []byte(`{"items":[{},1]}`), ErrMalformed, "not an object"},
		{"item null", []byte(`{"items":[null]}`), ErrMalformed, "not an object"},
		{"comma at end", []byte(`{"items":[{},]}`), ErrMalformed, "comma"},
		{"comma first", []byte(`{"items":[,{}]}`), ErrMalformed, ""},
		{"no comma", []byte(`{"items":[{}{}]}`), ErrMalformed, "comma"},
		{"comma at object's end", []byte(`{"items":[],}`), ErrMalformed, "comma"},
		{"item's metadata twice", []byte(`{"items":[{"metadata":{},"meta\u0064ata":{}}]}`), ErrMalformed, "twice"},
		{"junk at the end", []byte(`{"items":[]} x`), ErrMalformed, "after its end"},
		{"braces crossed", []byte(`{"items":[{"a":[}]}]}`), ErrMalformed, "not JSON"},
		{"control character", []byte("{\"items\":[{\"a\":\"\x01\"}]}"), ErrMalformed, "not JSON"},
		{"bad escape", []byte(`{"items":[{"a":"\x"}]}`), ErrMalformed, "not JSON"},
		{"bad number", []byte(`{"items":[{"a":01}]}`), ErrMalformed, "not JSON"},
		{"bad literal", []byte(`{"items":[{"a":nul}]}`), ErrMalformed, "not JSON"},
		{"too deep", []byte(`{"items":[{"a":` + deep), ErrMalformed, "too deep"},
		{"too deep in passing", []byte(`{"x":` + deep), ErrMalformed, "too deep"},
		{"too large", []byte(`{"items":[{"a":"` + strings.Repeat("x", 50_000)), ErrTooLarge, "item"},
		{"a Status with items", []byte(`{"kind":"Status","items":[]}`), ErrMalformed, "Status"},
	}
	checkHostile(t, tests, func(body []byte) error {
		_, err := readList(NewListReader(bytes.NewReader(body), JSON, Limits{MaxObject: 20_000}))
		if _, second := readList(NewListReader(readerShapes["bytes"](bytes.NewReader(body)), JSON, Limits{MaxObject: 20_000})); err == nil || second == nil || second.Error() != err.Error() {
			t.Errorf("byte by byte: %v, else %v", second, err)
		}
		return err
	})
}

func TestListReaderJSONShapes(t *testing.T) {
	for body, want := range map[string]string{
		`{"items":[{"a":1},{}]}`:                              `{"a":1}|{}`,
		"{ \"items\" : [ { \"a\" : 1 } ,\r\n\t{ } ] } \n":     `{ "a" : 1 }|{ }`,
		`{"items":null}`:                                      ``,
		`{"kind":"PodList"}`:                                  ``,
		`{"items":[{"a":"]}"}],"x":[1,-0.5e+7,{"y":true}]}`:   `{"a":"]}"}`,
		`{"x":"\"items\":[","it\u0065ms":[{"b":[[],null]}]}`:  `{"b":[[],null]}`,
		`{"items":[{"kind":"A","metadata":{"metadata":{}}}]}`: `{"kind":"A","metadata":{"metadata":{}}}`,
	} {
		for name, wrap := range readerShapes {
			items, err := readList(NewListReader(wrap(strings.NewReader(body)), JSON, Limits{}))
			if got := string(bytes.Join(items, []byte("|"))); err != nil || got != want {
				t.Errorf("%s, %s: %s %v", body, name, got, err)
			}
		}
	}
	l := NewListReader(strings.NewReader(`{"items":[{}],"metadata":{"resourceVersion":"9","x":[1]},"kind":"PodList","apiVersion":"v1"}`), JSON, Limits{})
	if _, err := readList(l); err != nil || l.Meta().ResourceVersion != "9" || l.ItemTypeMeta() != (TypeMeta{"v1", "Pod"}) {
		t.Errorf("metadata after the items: %v %v %v", l.Meta(), l.TypeMeta(), err)
	}
}

func frame(event []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func TestWatchReaderHostile(t *testing.T) {
	object := unknown(1, message(1, "v1", 2, "Pod"), 2, message(1, ""))
	extension := message(1, object)
	checkHostile(t, []hostile{
		{"half a length", []byte{0, 0}, io.ErrUnexpectedEOF, ""},
		{"json", []byte(`{"type":"ADDED"}`), ErrTooLarge, ""},
		{"empty frame", frame(nil), ErrMalformed, "without type"},
		{"no object", frame(message(1, "ADDED")), ErrMalformed, "without type or object"},
		{"no type", frame(message(2, extension)), ErrMalformed, "without type or object"},
		{"bad type", frame(message(1, "added", 2, extension)), ErrMalformed, "added"},
		{"type twice", frame(message(1, "ADDED", 1, "ADDED", 2, extension)), ErrMalformed, "twice"},
		{"object twice", frame(message(1, "ADDED", 2, extension, 2, extension)), ErrMalformed, "twice"},
		{"no raw", frame(message(1, "ADDED", 2, "")), ErrMalformed, "without object"},
		{"raw twice", frame(message(1, "ADDED", 2, append(extension, extension...))), ErrMalformed, "twice"},
		{"no envelope", frame(message(1, "ADDED", 2, message(1, "{}"))), ErrMalformed, "k8s"},
		{"no object inside", frame(message(1, "ADDED", 2, message(1, unknown(1, podListType)))), ErrMalformed, "no object"},
		{"frame too large", []byte{0x7f, 0, 0, 0}, ErrTooLarge, ""},
		{"object too large", frame(message(1, "ADDED", 2, message(1, unknown(2, strings.Repeat("x", 1001))))), ErrTooLarge, ""},
	}, func(body []byte) error {
		_, err := readWatch(NewWatchReader(bytes.NewReader(body), Protobuf, Limits{MaxObject: 1000}))
		return err
	})
	checkHostile(t, []hostile{
		{"array", []byte(`[]`), ErrMalformed, "not an object"},
		{"no object", []byte(`{"type":"ADDED"}`), ErrMalformed, "without type or object"},
		{"no type", []byte(`{"object":{}}`), ErrMalformed, "without type or object"},
		{"bad type", []byte(`{"type":"added","object":{}}`), ErrMalformed, "added"},
		{"type twice", []byte(`{"type":"ADDED","type":"ADDED","object":{}}`), ErrMalformed, "twice"},
		{"object twice", []byte(`{"type":"ADDED","object":{},"object":{}}`), ErrMalformed, "twice"},
		{"object null", []byte(`{"type":"ADDED","object":null}`), ErrMalformed, "object"},
		{"its metadata twice", []byte(`{"type":"ADDED","object":{"metadata":{},"metadata":{}}}`), ErrMalformed, "twice"},
		{"its kind a number", []byte(`{"type":"ADDED","object":{"kind":1}}`), ErrMalformed, "kind"},
		{"comma between", []byte(`{"type":"ADDED","object":{}},{}`), ErrMalformed, "not an object"},
		{"too large", []byte(`{"type":"ADDED","object":{"a":"` + strings.Repeat("x", 1001) + `"}}`), ErrTooLarge, ""},
		{"too large so far", []byte(`{"type":"ADDED","object":{"a":"` + strings.Repeat("x", 6000)), ErrTooLarge, ""},
		{"too much space", []byte(`{"type":"ADDED"` + strings.Repeat(" ", 200_000)), ErrTooLarge, ""},
	}, func(body []byte) error {
		_, err := readWatch(NewWatchReader(bytes.NewReader(body), JSON, Limits{MaxObject: 1000}))
		return err
	})
}

// TestWatchReaderDoesNotWait checks that the reader returns an event as soon as its last byte has
// arrived, without another read. In JSON, the newline after the event may arrive later.
func TestWatchReaderDoesNotWait(t *testing.T) {
	for _, enc := range encodings {
		src := &stepReader{t: t}
		w := NewWatchReader(src, enc, Limits{})
		for i, e := range sampleEvents(3) {
			event := encodeEvents(t, enc, []watch.Event{e})
			if i%2 == 0 {
				event = bytes.TrimSuffix(event, []byte("\n"))
			}
			half := len(event) / 2
			src.chunks = [][]byte{event[:half], event[half:]}
			if got, err := w.Next(); err != nil || got.Type.String() != string(e.Type) || w.Buffered() != 0 {
				t.Fatalf("%v: event %d: %v %v, %d buffered", enc, i, got.Type, err, w.Buffered())
			}
		}
	}
}

// endless is a reader that repeats the same bytes without end.
type endless struct{ chunk []byte }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.chunk)
	}
	return n, nil
}

// TestReadersStayWithinTheirLimit reads lists with endless whitespace, an endless unknown member or
// an endless object. It checks that the reader allocates at most five times MaxObject and returns
// an error.
func TestReadersStayWithinTheirLimit(t *testing.T) {
	const limit = 1 << 20
	bodies := map[string]func() io.Reader{
		"object":     func() io.Reader { return io.MultiReader(strings.NewReader(`{"items":[{"a":"`), endless{[]byte("x")}) },
		"whitespace": func() io.Reader { return io.LimitReader(endless{[]byte(" ")}, 64<<20) },
		"member": func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"x":[`), io.LimitReader(endless{[]byte(`"y",12, `)}, 64<<20))
		},
		"between": func() io.Reader {
			return io.MultiReader(strings.NewReader(`{"items":[`), io.LimitReader(endless{[]byte("\n")}, 64<<20))
		},
	}
	for name, body := range bodies {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readList(NewListReader(body(), JSON, Limits{MaxObject: limit}))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 5*limit {
			t.Errorf("%s: %d bytes allocated", name, grown)
		}
	}
}

// TestBufferShrinks checks a buffer that grew for one large object. It must shrink to bulkBuffer
// while the body arrives fast, and to readBuffer when the body arrives slowly.
func TestBufferShrinks(t *testing.T) {
	body := slicesConcat([]byte(`{"items":[{"a":"`), bytes.Repeat([]byte("x"), 4<<20), []byte(`"}`), bytes.Repeat([]byte(`,{"b":"some item of some size"}`), 500_000), []byte(`]}`))
	const slow = 1 << 20 // bytes at the end of the body that arrive slowly, in small pieces
	fast := bytes.NewReader(body[:len(body)-slow])
	l := NewListReader(io.MultiReader(fast, pieces{bytes.NewReader(body[len(body)-slow:])}), JSON, Limits{})
	items, bulk := 0, 0
	for {
		if _, err := l.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if items++; fast.Len() > 0 {
			bulk = len(l.body.(*jsonList).buf.buf)
		}
	}
	if items != 500_001 || bulk != bulkBuffer {
		t.Errorf("%d items, and a buffer of %d bytes while they came fast", items, bulk)
	}
	check.Equal(t, len(l.body.(*jsonList).buf.buf), readBuffer, "a buffer of bytes at the end")
}

// pieces is a reader that returns at most 1 KiB per read.
type pieces struct{ io.Reader }

func (p pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), 1<<10)]) }
