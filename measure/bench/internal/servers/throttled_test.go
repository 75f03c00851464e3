package servers

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 5000
		text := strings.Repeat("x", size)
		begin := time.Now()
		got, err := io.ReadAll(newThrottled(t.Context(), strings.NewReader(text), 1000))
		if err != nil || string(got) != text {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		// The reader waits before each read except the first one, and makes a hundred reads a second.
		if took := time.Since(begin); took < 4900*time.Millisecond || took > 5*time.Second {
			t.Errorf("5,000 bytes took %s at 1,000 a second", took)
		}
	})
}

func TestThrottledReadsSmallPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newThrottled(t.Context(), strings.NewReader(strings.Repeat("x", 5000)), 1000)
		if n, err := r.Read(make([]byte, 4096)); n != 10 || err != nil {
			t.Errorf("%d bytes at once, %v; want what 10 ms have", n, err)
		}
	})
}

func TestThrottledPassesErrorsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := io.ReadAll(newThrottled(t.Context(), iotest.ErrReader(io.ErrClosedPipe), 1000))
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := io.ReadAll(newThrottled(ctx, strings.NewReader("text"), 1000)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
