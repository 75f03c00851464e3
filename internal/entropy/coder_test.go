package entropy

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/weirproject/weir/internal/podsim"
)

// blocks are what S2 makes of simulated pods.
func blocks(t testing.TB, n int) (out [][]byte, sizes []int) {
	t.Helper()
	sim := podsim.New(n, 1)
	for i := range n {
		raw, err := sim.Pod(i).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out, sizes = append(out, s2.Encode(nil, raw)), append(sizes, len(raw))
	}
	return out, sizes
}

func back(t *testing.T, c *Coder, block []byte, size int) (coded []byte) {
	t.Helper()
	coded, ok := c.Append([]byte("before"), block)
	if !ok {
		t.Fatalf("%x is no block", block)
	}
	got, err := c.Decode([]byte("before"), coded[len("before"):], size)
	if err != nil || string(got) != "before"+string(block) {
		t.Fatalf("a block of %d bytes does not come back: %v", len(block), err)
	}
	return coded[len("before"):]
}

func TestThereAndBack(t *testing.T) {
	all, sizes := blocks(t, 60)
	c := NewCoder(Train(all[:20]...))
	before, after := 0, 0
	for i, block := range all {
		before += len(block)
		after += len(back(t, c, block, sizes[i]))
	}
	if after*10 > before*8 {
		t.Errorf("%d bytes became %d", before, after)
	}
}

// TestAnything codes blocks that the model was not made for: literals, copies and repeats of all lengths and distances.
func TestAnything(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	for _, c := range []*Coder{NewCoder(Train()), NewCoder(Train([]byte("no block"), nil, s2.Encode(nil, noise)))} {
		for _, n := range []int{0, 1, 59, 60, 61, 255, 256, 257, 65_535, 65_536, 65_537, 200_000} {
			for _, raw := range [][]byte{
				noise[:n],
				bytes.Repeat([]byte{7}, n),
				append(append(bytes.Clone(noise[:n]), noise[:n]...), 1),
				append(append(bytes.Clone(noise[:n/2]), bytes.Repeat([]byte("abc"), n/3)...), noise[:n/2]...),
			} {
				for _, encode := range []func(dst, src []byte) []byte{s2.Encode, s2.EncodeBetter, s2.EncodeBest, s2.EncodeSnappy} {
					back(t, c, encode(nil, raw), len(raw))
				}
			}
		}
	}
}

func TestCorrupt(t *testing.T) {
	all, sizes := blocks(t, 2)
	c := NewCoder(Train(all...))
	coded, _ := c.Append(nil, all[0])
	if _, err := c.Decode(nil, coded[:len(coded)/2], sizes[0]); !errors.Is(err, ErrCorrupt) {
		t.Errorf("half of it: %v", err)
	}
	if _, err := c.Decode(nil, nil, 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("nothing: %v", err)
	}
	for _, bad := range [][]byte{nil, {0x80}, {5, 0xf0}, {5, 0xf0, 9}, {5, 0xff, 1, 2}, {5, 1}, {5, 0x1d, 0}} {
		if _, ok := c.Append(nil, bad); ok {
			t.Errorf("%x is no block", bad)
		}
	}
}

// TestCodeLengths checks Kraft's equation: the codes fill the table, and none is the beginning of another.
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

// FuzzDecode: damaged memory is an error, never a crash and never without end.
func FuzzDecode(f *testing.F) {
	all, sizes := blocks(f, 3)
	c := NewCoder(Train(all...))
	for i, block := range all {
		coded, _ := c.Append(nil, block)
		f.Add(coded, sizes[i])
	}
	f.Fuzz(func(t *testing.T, coded []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		block, err := c.Decode(nil, coded, size)
		if err == nil && len(block) > 11*len(coded)+16 {
			t.Errorf("%d bytes became %d", len(coded), len(block))
		}
	})
}

// FuzzAppend: what is a block comes back.
func FuzzAppend(f *testing.F) {
	all, _ := blocks(f, 3)
	c := NewCoder(Train(all...))
	for _, block := range all {
		f.Add(block)
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		if size, err := s2.DecodedLen(block); err != nil || size > 1<<20 {
			return
		}
		raw, err := s2.Decode(nil, block)
		if err != nil {
			return
		}
		coded, ok := c.Append(nil, block)
		if !ok {
			t.Fatalf("%x is a block", block)
		}
		got, err := c.Decode(nil, coded, len(raw))
		if err != nil {
			t.Fatalf("%x: %v", block, err)
		}
		if again, err := s2.Decode(nil, got); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%x came back as %x: %v", block, got, err)
		}
	})
}

func BenchmarkCoder(b *testing.B) {
	all, sizes := blocks(b, 200)
	c := NewCoder(Train(all[:20]...))
	var coded [][]byte
	for _, block := range all {
		one, _ := c.Append(nil, block)
		coded = append(coded, one)
	}
	b.Run("append", func(b *testing.B) {
		var dst []byte
		n := 0
		for i := 0; b.Loop(); i++ {
			dst, _ = c.Append(dst[:0], all[i%len(all)])
			n += len(all[i%len(all)])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/B")
	})
	b.Run("decode", func(b *testing.B) {
		var dst []byte
		n := 0
		for i := 0; b.Loop(); i++ {
			var err error
			if dst, err = c.Decode(dst[:0], coded[i%len(all)], sizes[i%len(all)]); err != nil {
				b.Fatal(err)
			}
			n += len(dst)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/B")
	})
}
