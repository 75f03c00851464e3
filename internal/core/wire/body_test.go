package wire

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/weirproject/weir/internal/testing/check"
)

func gzipMember(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, w.Close())
	return b.Bytes()
}

// stepReader gives one chunk a read and fails the test when asked for one that is not there yet.
type stepReader struct {
	t      *testing.T
	chunks [][]byte
}

func (s *stepReader) Read(p []byte) (int, error) {
	if len(s.chunks) == 0 {
		s.t.Error("read, and would have waited")
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; len(s.chunks[0]) == 0 {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

// What a member holds is there before the next member is.
func TestNewBodyDoesNotWaitForTheNextMember(t *testing.T) {
	src := &stepReader{t: t}
	body, err := NewBody(src, "gzip")
	check.NoError(t, err)
	for _, text := range []string{"first", "second, and longer", "x"} {
		src.chunks = append(src.chunks, gzipMember(t, text))
		got := make([]byte, len(text))
		if _, err := io.ReadFull(body, got); err != nil || string(got) != text {
			t.Fatalf("%q %v, want %q", got, err, text)
		}
	}
}

func TestNewBodyMembers(t *testing.T) {
	var all []byte
	for _, text := range []string{"a", "", "b", string(bytes.Repeat([]byte("long "), 50_000)), "c"} {
		all = append(all, gzipMember(t, text)...)
	}
	for name, wrap := range readerShapes {
		body, _ := NewBody(wrap(bytes.NewReader(all)), "gzip")
		got, err := io.ReadAll(body)
		if err != nil || len(got) != 250_003 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestNewBodyBroken(t *testing.T) {
	one := gzipMember(t, "some text")
	for cut := 1; cut < len(one); cut++ {
		body, _ := NewBody(bytes.NewReader(one[:cut]), "gzip")
		if _, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	for _, tail := range []string{"junk that is no gzip", "\x1f\x8b"} {
		body, _ := NewBody(bytes.NewReader(append(bytes.Clone(one), tail...)), "gzip")
		if got, err := io.ReadAll(body); err == nil || string(got) != "some text" {
			t.Errorf("%q after it: %q %v", tail, got, err)
		}
	}
	body, _ := NewBody(iotest.ErrReader(io.ErrClosedPipe), "gzip")
	if _, err := io.ReadAll(body); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("source's error: %v", err)
	}
}

func TestNewBodyEncodings(t *testing.T) {
	for _, ce := range []string{"", "identity", "Identity "} {
		r := bytes.NewReader(nil)
		if body, err := NewBody(r, ce); err != nil || body != io.Reader(r) {
			t.Errorf("%q: %v %v", ce, body, err)
		}
	}
	if _, err := NewBody(nil, "br"); !errors.Is(err, ErrUnknownEncoding) {
		t.Errorf("br: %v", err)
	}
}

func TestEncodingOf(t *testing.T) {
	for ct, want := range map[string]Encoding{
		"application/json":                JSON,
		"application/json; charset=utf-8": JSON,
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1":          JSON,
		"application/json;stream=watch":                                             JSON,
		"Application/JSON":                                                          JSON,
		"application/vnd.kubernetes.protobuf":                                       Protobuf,
		"application/vnd.kubernetes.protobuf;stream=watch":                          Protobuf,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;stream=watch": Protobuf,
		"":                 0,
		"text/plain":       0,
		"application/yaml": 0,
		"application/cbor": 0,
		"json;":            0,
	} {
		got, err := EncodingOf(ct)
		if got != want || (want == 0) != errors.Is(err, ErrUnknownEncoding) {
			t.Errorf("%q: %v %v, want %v", ct, got, err, want)
		}
	}
	if JSON.String() != "json" || Protobuf.String() != "protobuf" || Encoding(0).String() == "" {
		t.Error("names")
	}
}
