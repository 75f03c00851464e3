package wire

import (
	"bytes"
	"io"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// tap is a reader of pieces. After each piece it has nothing to read until Wait is called.
type tap struct {
	pieces [][]byte
	dry    bool // a Read would wait
	waits  int
	idle   func() // called when the reader has nothing to read
}

func (r *tap) Ready() bool { return !r.dry }

func (r *tap) Wait() {
	if r.dry {
		r.idle()
		r.dry, r.waits = false, r.waits+1
	}
}

func (r *tap) Read(p []byte) (int, error) {
	if r.Wait(); len(r.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.pieces[0])
	if r.pieces[0] = r.pieces[0][n:]; len(r.pieces[0]) == 0 {
		r.pieces, r.dry = r.pieces[1:], true
	}
	return n, nil
}

// TestIdleBuffer checks a buffer that waits without unread bytes, after small reads and after a
// burst that made it grow. During the wait, its memory must be in the pool, where another buffer
// may use and overwrite it. All bytes must arrive in order.
func TestIdleBuffer(t *testing.T) {
	body := make([]byte, 5*bulkBuffer)
	for i := range body {
		body[i] = byte(i % 251)
	}
	for name, cuts := range map[string][]int{
		"burst": {4 * bulkBuffer, 4*bulkBuffer + 100},
		"short": {readBuffer + 10, 3*readBuffer + 20},
		"calm":  {100, 300, 301, 5000, 5000 + readBuffer/2},
	} {
		t.Run(name, func(t *testing.T) {
			r, from := &tap{}, 0
			for _, to := range append(cuts, len(body)) {
				r.pieces, from = append(r.pieces, body[from:to]), to
			}
			readAroundWaits(t, r, body)
		})
	}
}

// readAroundWaits reads all of r in small steps and checks that the bytes equal want. While r
// waits, it overwrites the pooled buffers.
func readAroundWaits(t *testing.T, r *tap, want []byte) {
	b := &buffer{r: r}
	empty, none := 0, 0
	r.idle = func() {
		if b.buf == nil {
			none++
		} else if b.len() == 0 {
			empty++
		}
		small, bulk := readBuffers.Get().(*[readBuffer]byte), bulkBuffers.Get().(*[bulkBuffer]byte)
		clear(small[:])
		clear(bulk[:])
		readBuffers.Put(small)
		bulkBuffers.Put(bulk)
	}
	var got []byte
	for step := 1; ; step = step%700 + 13 {
		if err := b.need(1); err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n := min(step, b.len())
		got = append(got, b.window()[:n]...)
		b.consume(n)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, and are not the %d", len(got), len(want))
	}
	if empty > 0 || none == 0 || r.waits < 2 {
		t.Errorf("of %d waits %d held an empty buffer, and %d none", r.waits, empty, none)
	}
}

// TestGrownBuffer checks that a buffer that grew for a large object also returns its memory to the
// pool while it waits for the next object. All bytes must arrive in order.
func TestGrownBuffer(t *testing.T) {
	var want []byte
	r, sizes := &tap{}, []int{100, 1 << 20, 100, 1<<20 + 7, 3, 5 * bulkBuffer}
	for i, size := range sizes {
		r.pieces = append(r.pieces, bytes.Repeat([]byte{byte('a' + i)}, size))
		want = append(want, r.pieces[i]...)
	}
	b := &buffer{r: r}
	r.idle = func() {
		if b.buf != nil {
			t.Errorf("a buffer of %d bytes after %d objects", len(b.buf), r.waits+1)
		}
		if grown, ok := grownBuffers.Get().(*[]byte); ok {
			clear(*grown)
			grownBuffers.Put(grown)
		}
	}
	var got []byte
	for _, size := range sizes {
		check.NoError(t, b.need(size))
		got = append(got, b.window()[:size]...)
		b.consume(size)
	}
	if !bytes.Equal(got, want) || r.waits != len(sizes)-1 {
		t.Errorf("%d bytes came, and are not the %d, in %d waits", len(got), len(want), r.waits)
	}
}
