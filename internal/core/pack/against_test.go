package pack

import (
	"bytes"
	"testing"

	"github.com/weirproject/weir/internal/core/compress"
)

// TestAgainst encodes difficult inputs: shifts, repeats, changes at both ends, nothing in common.
func TestAgainst(t *testing.T) {
	rnd := newRand(3)
	base := []byte(noise(rnd, 9000))
	for _, tc := range []struct {
		what string
		raw  []byte
		most int // bytes of the block; 0: too different from the base
	}{
		{"the same", base, 20},
		{"shorter", base[:300], 20},
		{"behind", base[5000:], 60},
		{"shifted by one", append([]byte("+"), base...), 60},
		{"one changed in the middle", append(append(bytes.Clone(base[:4000]), '\n'), base[4001:]...), 40},
		{"a piece less", append(bytes.Clone(base[:4000]), base[4100:]...), 60},
		{"a piece more", append(append(bytes.Clone(base[:4000]), noise(rnd, 70)...), base[4000:]...), 160},
		{"twice", append(bytes.Clone(base), base...), 60},
		{"another", []byte(noise(rnd, 9000)), 0},
		{"nothing", nil, 4},
	} {
		u := &unpacked{bytes: base}
		block, ok := u.encode(nil, tc.raw, len(tc.raw)/farRatio)
		if ok != (tc.most > 0) || ok && len(block) > tc.most {
			t.Errorf("%s: %d bytes, %v, want at most %d", tc.what, len(block), ok, tc.most)
		}
		if ok {
			comesBack(t, base, tc.raw, block)
		}
	}
}

// comesBack decodes a block, and has S2 decode it.
func comesBack(t *testing.T, base, raw, block []byte) {
	t.Helper()
	if back, ok := decodeBlock([]byte("before"), base, block, len(raw)); !ok || string(back) != "before"+string(raw) {
		t.Fatalf("%d bytes do not come back against %d", len(raw), len(base))
	}
	if len(base) < compress.MinDictBytes {
		return
	}
	dict := compress.NewDict(append(bytes.Clone(base), make([]byte, 16)...)[:len(base)])
	if dict == nil {
		return
	}
	if back, err := dict.Decode(nil, block); err != nil || !bytes.Equal(back, raw) {
		t.Fatalf("S2 does not decode %q against %q: %v", raw, base, err)
	}
}

// FuzzAgainst: any object encoded against any base is decoded unchanged.
func FuzzAgainst(f *testing.F) {
	f.Add([]byte("pod-a is on node-1 since 10:00 and has 3 containers"), []byte("pod-bc is on node-17 since 10:30 and has 3 containers"))
	f.Add([]byte{}, []byte("there is no base"))
	f.Add(bytes.Repeat([]byte("again "), 60), bytes.Repeat([]byte("again and "), 90))
	f.Fuzz(func(t *testing.T, base, raw []byte) {
		if len(base) > maxSibling || len(raw) > maxSibling {
			return
		}
		u := &unpacked{bytes: base}
		block, ok := u.encode(nil, raw, len(raw))
		if !ok {
			t.Fatal("all bytes may be literals")
		}
		comesBack(t, base, raw, block)
	})
}
