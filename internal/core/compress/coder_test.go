package compress

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// population is simulated pods and S2's output for them with the first of them as a dictionary.
type population struct {
	raws, blocks [][]byte
	dict         []byte
}

func populate(t testing.TB, n int) (p population) {
	t.Helper()
	sim := podsim.New(n, 1)
	for i := range n {
		raw, err := sim.Pod(i).Marshal()
		check.NoError(t, err)
		p.raws = append(p.raws, raw)
	}
	p.dict = p.raws[0]
	dict := s2.MakeDictManual(p.dict, 0)
	for _, raw := range p.raws {
		p.blocks = append(p.blocks, dict.Encode(nil, raw))
	}
	return p
}

// coder is one for the population.
func (p *population) coder() *Coder {
	return NewCoder(Train(p.blocks[:min(20, len(p.blocks))]...), p.dict)
}

func back(t *testing.T, c *Coder, block, raw []byte) (coded []byte) {
	t.Helper()
	coded, ok := c.Append([]byte("before"), block)
	if !ok {
		t.Fatalf("%x is no block", block)
	}
	got, err := c.Decode([]byte("before"), coded[len("before"):], len(raw))
	if err != nil || string(got) != "before"+string(raw) {
		t.Fatalf("%d bytes do not come back: %v", len(raw), err)
	}
	return coded[len("before"):]
}

func TestThereAndBack(t *testing.T) {
	p := populate(t, 60)
	c := p.coder()
	before, after := 0, 0
	for i, block := range p.blocks {
		before += len(block)
		after += len(back(t, c, block, p.raws[i]))
	}
	if after*10 > before*8 {
		t.Errorf("%d bytes became %d", before, after)
	}
}

// TestAnything codes blocks for which the model was not trained: literals, copies and repeats of
// all lengths and distances.
func TestAnything(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	for _, c := range []*Coder{NewCoder(Train(), nil), NewCoder(Train([]byte("no block"), nil, s2.Encode(nil, noise)), noise)} {
		for _, n := range []int{0, 1, 59, 60, 61, 255, 256, 257, 65_535, 65_536, 65_537, 200_000} {
			for _, raw := range [][]byte{
				noise[:n],
				bytes.Repeat([]byte{7}, n),
				append(append(bytes.Clone(noise[:n]), noise[:n]...), 1),
				append(append(bytes.Clone(noise[:n/2]), bytes.Repeat([]byte("abc"), n/3)...), noise[:n/2]...),
			} {
				for _, encode := range []func(dst, src []byte) []byte{s2.Encode, s2.EncodeBetter, s2.EncodeBest, s2.EncodeSnappy} {
					back(t, c, encode(nil, raw), raw)
				}
			}
		}
	}
}

func TestCorrupt(t *testing.T) {
	p := populate(t, 2)
	c := p.coder()
	coded, _ := c.Append(nil, p.blocks[1])
	size := len(p.raws[1])
	if _, err := c.Decode(nil, coded[:len(coded)/2], size); !errors.Is(err, ErrCorrupt) {
		t.Errorf("half of it: %v", err)
	}
	if _, err := c.Decode(nil, nil, 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("nothing: %v", err)
	}
	for _, bad := range [][]byte{nil, {0x80}, {5, 0xf0}, {5, 0xf0, 9}, {5, 0xff, 1, 2}, {5, 1}, {5, 0x1d, 0}} {
		if got, ok := c.Append([]byte("x"), bad); ok || string(got) != "x" {
			t.Errorf("%x is no block", bad)
		}
	}
	// Copies from outside the dictionary and the block.
	for _, bad := range [][]byte{{8, 0x1e, 0, 0}, {8, 0x1e, 1, 0xff}, {8, 0x1f, 0xff, 0xff, 0xff, 0xff}} {
		coded, ok := c.Append(nil, bad)
		if !ok {
			t.Fatalf("%x is a block, if a bad one", bad)
		}
		if _, err := c.Decode(nil, coded, 8); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

// TestCodeLengths checks Kraft's equation: the codes fill the table, and none is the beginning of
// another.
func TestCodeLengths(t *testing.T) {
	var one, fib [256]int
	one['x'] = 1 << 40
	for i, a, b := 0, 1, 1; i < 60; i, a, b = i+1, b, a+b {
		fib[i] = a
	}
	for _, counts := range []*[256]int{{}, &one, &fib} {
		l := codeFor(counts)
		sum := 0
		for _, n := range l {
			if n == 0 || n > maxBits {
				t.Fatalf("a code of %d bits", n)
			}
			sum += 1 << (maxBits - n)
		}
		if sum != 1<<maxBits {
			t.Errorf("the codes fill %d of %d", sum, 1<<maxBits)
		}
	}
	if l := codeFor(&one); l['x'] != 1 {
		t.Errorf("the only byte takes %d bits", l['x'])
	}
}

// FuzzDecode: damaged bytes cause an error, or other bytes, and never a crash.
func FuzzDecode(f *testing.F) {
	p := populate(f, 3)
	c := p.coder()
	for i, block := range p.blocks {
		coded, _ := c.Append(nil, block)
		f.Add(coded, len(p.raws[i]))
	}
	f.Fuzz(func(t *testing.T, coded []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		if raw, err := c.Decode(nil, coded, size); err == nil && len(raw) != size {
			t.Errorf("%d bytes, want %d", len(raw), size)
		}
	})
}

// FuzzAppend: a block is decoded as S2 would decode it.
func FuzzAppend(f *testing.F) {
	p := populate(f, 3)
	c := p.coder()
	dict := s2.MakeDictManual(p.dict, 0)
	for _, block := range p.blocks {
		f.Add(block)
	}
	f.Add(s2.Encode(nil, bytes.Repeat([]byte("again"), 100_000)))
	f.Fuzz(func(t *testing.T, block []byte) {
		size, err := s2.DecodedLen(block)
		if err != nil || size > 1<<20 {
			return
		}
		raw, err := dict.Decode(nil, block)
		if err != nil {
			return
		}
		coded, ok := c.Append(nil, block)
		if !ok {
			t.Fatalf("%x is a block", block)
		}
		got, err := c.Decode(nil, coded, size)
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%x came back as %x: %v", raw, got, err)
		}
	})
}

func BenchmarkCoder(b *testing.B) {
	p := populate(b, 200)
	c := p.coder()
	var coded [][]byte
	for _, block := range p.blocks {
		one, _ := c.Append(nil, block)
		coded = append(coded, one)
	}
	b.Run("append", func(b *testing.B) {
		var dst []byte
		for i := 0; b.Loop(); i++ {
			dst, _ = c.Append(dst[:0], p.blocks[i%len(p.blocks)])
		}
	})
	b.Run("decode", func(b *testing.B) {
		var dst []byte
		for i := 0; b.Loop(); i++ {
			var err error
			if dst, err = c.Decode(dst[:0], coded[i%len(coded)], len(p.raws[i%len(coded)])); err != nil {
				b.Fatal(err)
			}
		}
	})
}
