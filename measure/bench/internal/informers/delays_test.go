package informers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestFramed checks that framed calls arrive once per event that is not empty, no matter how the
// reads divide the body.
func TestFramed(t *testing.T) {
	var body []byte
	for _, size := range []int{0, 1, 3, 70_000, 5} {
		body = append(binary.BigEndian.AppendUint32(body, uint32(size)), make([]byte, size)...)
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(body), "by bytes": iotest.OneByteReader(bytes.NewReader(body)), "by halves": iotest.HalfReader(bytes.NewReader(body)),
	} {
		n := 0
		if _, err := io.Copy(io.Discard, &framed{ReadCloser: io.NopCloser(r), arrive: func() { n++ }}); err != nil {
			t.Fatal(err)
		}
		if n != 4 { // the event with 0 bytes does not count
			t.Errorf("%s: %d events, want 4", name, n)
		}
	}
}

// TestDelays checks that a delay ends when the last handler receives the change. It checks that an
// event counts only if armed is set when the event arrives.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDelays(2, 10)
		var told int
		first := d.handler(func(eventKind, string) { told++ })
		second := d.handler(func(eventKind, string) { told++ })
		first(added, "a/1")
		d.arrive()
		if _, err := d.p99(); !errors.Is(err, errNoDelay) {
			t.Errorf("nothing counted: %v", err)
		}
		d.armed.Store(true)
		d.arrive()
		first(updated, "a/1")
		if _, err := d.p99(); !errors.Is(err, errNoDelay) {
			t.Errorf("one of two handlers was told: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		second(updated, "a/1")
		if got, err := d.p99(); err != nil || got != 0.002 {
			t.Errorf("%v s, %v, want the 2 ms until the last handler was told", got, err)
		}
		check.Equal(t, told, 3, "the handlers were told times")
	})
}
