package proxy

import (
	"bytes"
	"encoding/binary"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// frameScanner finds the ends of events in a watch stream. In an unknown format it takes each read
// for whole events.
type frameScanner struct {
	json, protobuf bool
	inLine         bool    // JSON: within a line
	head           [4]byte // protobuf: the frame's length, as far as read
	headLen, left  int     // bytes of head read; bytes of the frame missing
}

func newFrameScanner(h http.Header) frameScanner {
	if h.Get("Content-Encoding") != "" {
		return frameScanner{}
	}
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return frameScanner{json: media == runtime.ContentTypeJSON, protobuf: media == runtime.ContentTypeProtobuf}
}

// known reports whether the format is known, so that the ends of events are.
func (f *frameScanner) known() bool { return f.json || f.protobuf }

// betweenEvents reports whether the stream stands between two events.
func (f *frameScanner) betweenEvents() bool { return !f.inLine && f.headLen == 0 && f.left == 0 }

// scan reads the next bytes, and returns how many of them belong to complete events.
func (f *frameScanner) scan(b []byte) (whole int) {
	switch {
	case f.json:
		whole = bytes.LastIndexByte(b, '\n') + 1 // an event is a line
		f.inLine = len(b) > whole || len(b) == 0 && f.inLine
	case f.protobuf:
		for i := 0; i < len(b); {
			if f.left == 0 {
				n := copy(f.head[f.headLen:], b[i:])
				i += n
				if f.headLen += n; f.headLen < len(f.head) {
					return whole
				}
				f.left, f.headLen = int(binary.BigEndian.Uint32(f.head[:])), 0
			}
			n := min(f.left, len(b)-i)
			i, f.left = i+n, f.left-n
			if f.left == 0 {
				whole = i
			}
		}
	default:
		whole = len(b)
	}
	return whole
}
