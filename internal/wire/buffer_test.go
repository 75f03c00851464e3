package wire

import (
	"bytes"
	"io"
	"testing"
)

// tap is a reader that runs dry after each of its pieces.
type tap struct {
	pieces [][]byte
	dry    bool // a Read would wait
	waits  int
	idle   func() // called while there is nothing to read
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

// TestIdleBuffer: a buffer that grew for a burst of events holds nothing while it waits for more,
// others may have its memory meanwhile, and all bytes come in order.
func TestIdleBuffer(t *testing.T) {
	burst := make([]byte, 5*bulkBuffer)
	for i := range burst {
		burst[i] = byte(i % 251)
	}
	r := &tap{pieces: [][]byte{burst[:4*bulkBuffer], burst[4*bulkBuffer : 4*bulkBuffer+100], burst[4*bulkBuffer+100:]}}
	b := &buffer{r: r}
	held, whole := 0, 0
	r.idle = func() {
		if len(b.buf) > readBuffer && b.len() == 0 {
			held++
		}
		if b.buf == nil {
			whole++
		}
		other := bulkBuffers.Get().(*[bulkBuffer]byte)
		clear(other[:])
		bulkBuffers.Put(other)
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
	if !bytes.Equal(got, burst) {
		t.Errorf("%d bytes came, and are not the %d", len(got), len(burst))
	}
	if held > 0 || whole == 0 || r.waits < 2 {
		t.Errorf("of %d waits %d had no buffer, and %d an empty one", r.waits, whole, held)
	}
}
