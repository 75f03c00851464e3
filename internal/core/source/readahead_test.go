package source

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// pieces is a body that arrives in pieces. It records the buffer size of each Read.
type pieces struct {
	left []int // the lengths of the remaining pieces
	next byte
	room []int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.room = append(p.room, len(b))
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := min(p.left[0], len(b))
	if p.left[0] -= n; p.left[0] == 0 {
		p.left = p.left[1:]
	}
	for i := range b[:n] {
		b[i], p.next = p.next, p.next+1
	}
	return n, nil
}

// TestReadAheadRoom checks the sizes of the goroutine's read buffer: small while few bytes arrive,
// large during a burst.
func TestReadAheadRoom(t *testing.T) {
	src := &pieces{left: []int{100, minReadBuffer + 2*burstReadBuffer + 50, 200, minReadBuffer, 3}}
	total := 0
	for _, n := range src.left {
		total += n
	}
	a := newReadAhead(src, func(err error) error { return err })
	got, err := io.ReadAll(a)
	check.NoError(t, err)
	want := make([]byte, total)
	for i := range want {
		want[i] = byte(i)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, and are not the %d", len(got), total)
	}
	const least, burst = minReadBuffer, burstReadBuffer
	rooms := []int{least, least, burst, burst, burst, least, least, burst, least}
	if len(src.room) != len(rooms) {
		t.Fatalf("%d reads with room for %v, want %v", len(src.room), src.room, rooms)
	}
	for i := range rooms {
		if src.room[i] != rooms[i] {
			t.Fatalf("room for %v, want %v", src.room, rooms)
		}
	}
}

// TestReadAheadPanic checks that a panic in the function readAhead.before reaches the caller of
// Read. After a panic or a runtime.Goexit in that function, stop must not deadlock.
func TestReadAheadPanic(t *testing.T) {
	broken := errors.New("broken")
	a := newReadAhead(&pieces{}, func(err error) error { return err })
	a.before = func() { panic(broken) }
	func() {
		defer func() {
			check.Equal[any](t, recover(), broken, "Read panics with")
		}()
		_, _ = a.Read(make([]byte, 1))
	}()
	ended := make(chan struct{})
	a.before = runtime.Goexit
	go func() {
		defer close(ended)
		a.Wait()
	}()
	<-ended
	a.stop()
	if !a.Ready() {
		t.Error("a stream that is stopped waits")
	}
}
