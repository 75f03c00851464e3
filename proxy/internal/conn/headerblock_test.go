package conn

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestHeaderBlock encodes random fields, passes the block to headerBlock in pieces, and compares
// the counted fields with the decoded ones.
func TestHeaderBlock(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var encoded bytes.Buffer
		enc := hpack.NewEncoder(&encoded)
		dec := hpack.NewDecoder(4096, nil)
		for range 3 {
			if r.IntN(3) == 0 {
				enc.SetMaxDynamicTableSize(uint32(r.IntN(4096)))
			}
			encoded.Reset()
			for range r.IntN(100) {
				f := hpack.HeaderField{
					Name: strings.Repeat("n", r.IntN(3)*r.IntN(200)), Value: strings.Repeat("~v"[r.IntN(2):][:1], r.IntN(3)*r.IntN(500)), Sensitive: r.IntN(2) == 0,
				}
				if r.IntN(4) == 0 {
					f = hpack.HeaderField{Name: ":method", Value: "GET"}
				}
				check.NoError(t, enc.WriteField(f))
			}
			fields, err := dec.DecodeFull(encoded.Bytes())
			check.NoError(t, err)
			var hb headerBlock
			for rest := encoded.Bytes(); len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				hb.write(rest[:n])
				rest = rest[n:]
			}
			if hb.fields != len(fields) || hb.state != blockField {
				t.Fatalf("seed %d: %d fields, want %d; state %d", seed, hb.fields, len(fields), hb.state)
			}
		}
	}
}

// FuzzHeaderBlock checks that headerBlock counts any bytes without a panic, with the same result
// for a block in one piece and byte by byte.
func FuzzHeaderBlock(f *testing.F) {
	f.Add([]byte{0x82, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, p []byte) {
		var whole, pieces headerBlock
		whole.write(p)
		for i := range p {
			pieces.write(p[i : i+1])
		}
		if whole != pieces || whole.fields > len(p) {
			t.Errorf("%+v, in pieces %+v", whole, pieces)
		}
	})
}
