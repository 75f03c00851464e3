package conn

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/http2"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestFrameScan checks that frameScan finds all frames in pieces of any size.
func TestFrameScan(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		var wire bytes.Buffer
		framer := http2.NewFramer(&wire, nil)
		var want []frameHeader
		for range 1 + r.IntN(20) {
			stream := 1 + r.Uint32N(9)
			switch r.IntN(5) {
			case 0:
				n := r.IntN(50)
				_ = framer.WriteData(stream, true, make([]byte, n))
				want = append(want, frameHeader{kind: http2.FrameData, flags: http2.FlagDataEndStream, length: n, stream: stream})
			case 1:
				_ = framer.WriteGoAway(stream, http2.ErrCodeNo, []byte("because")[:r.IntN(7)])
				want = append(want, frameHeader{kind: http2.FrameGoAway, length: -1, last: stream})
			case 2:
				_ = framer.WriteRSTStream(stream, http2.ErrCodeCancel)
				want = append(want, frameHeader{kind: http2.FrameRSTStream, length: 4, stream: stream})
			case 3:
				_ = framer.WriteSettingsAck()
				want = append(want, frameHeader{kind: http2.FrameSettings, flags: http2.FlagSettingsAck})
			case 4:
				_ = framer.WriteContinuation(stream, true, make([]byte, 3))
				want = append(want, frameHeader{kind: http2.FrameContinuation, flags: http2.FlagContinuationEndHeaders, length: 3, stream: stream})
			}
		}
		var got []frameHeader
		fs := frameScan{
			onHeader: func(f frameHeader) {
				if f.kind == http2.FrameGoAway {
					f.length = -1
				}
				got = append(got, f)
			},
			onPayload: func(_ frameHeader, p []byte) {
				if len(p) == 0 {
					t.Error("an empty part")
				}
			},
		}
		for rest := wire.Bytes(); len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 30))
			fs.scan(rest[:n])
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
	}
}

// TestFloods checks that an unknown client loses its connection if it opens streams after GOAWAY,
// or sends PING or SETTINGS frames and does not read the answers. A known client keeps its
// connection.
func TestFloods(t *testing.T) {
	for name, c := range map[string]struct {
		accepted bool
		gone     bool
		frame    frameHeader
		closed   bool
	}{
		"streams after GOAWAY": {false, true, frameHeader{kind: http2.FrameHeaders}, true},
		"pings":                {false, false, frameHeader{kind: http2.FramePing}, true},
		"settings":             {false, false, frameHeader{kind: http2.FrameSettings}, true},
		"answers to pings":     {false, false, frameHeader{kind: http2.FramePing, flags: http2.FlagPingAck}, false},
		"a known one's pings":  {true, false, frameHeader{kind: http2.FramePing}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tc := newTestListener(t, 10)
			hc := &http2Conn{client: tc.open("a")}
			if c.accepted {
				hc.client.Accept()
			}
			if c.gone {
				hc.sent(frameHeader{kind: http2.FrameGoAway})
			}
			for i := range 2 * maxUnknownStreams {
				f := c.frame
				f.stream = uint32(2*i + 1)
				if hc.received(f); i == maxUnknownOwed-1 && isClosed(hc.client) {
					t.Error("it was closed early")
				}
			}
			check.Equal(t, isClosed(hc.client), c.closed, "closed")
		})
	}
	tc := newTestListener(t, 10)
	answered := &http2Conn{client: tc.open("a")}
	for range 3 * maxUnknownOwed {
		answered.received(frameHeader{kind: http2.FramePing})
		answered.sent(frameHeader{kind: http2.FramePing, flags: http2.FlagPingAck})
	}
	if isClosed(answered.client) {
		t.Error("a client that reads the answers was closed")
	}
}

// TestMemoryOfCertificates checks that large client certificates count as memory of unknown
// connections, and that the oldest of these connections are closed to make room for them.
func TestMemoryOfCertificates(t *testing.T) {
	const raw = 256 << 10
	tc := newTestListener(t, 100_000)
	first := tc.open("a")
	first.holdCertificates(1 << 10)
	if got := tc.memory.Usage()[unknown].Used; got != ConnectionBytes {
		t.Errorf("a usual certificate counts as %d bytes", got-ConnectionBytes)
	}
	for range unknownConnectionBytes / raw / certificateFactor {
		tc.open("b").holdCertificates(raw)
	}
	if !isClosed(first) {
		t.Error("the oldest connection made no room")
	}
	if got := tc.memory.Usage()[unknown].Used; got > unknownConnectionBytes {
		t.Errorf("%d bytes", got)
	}
}
