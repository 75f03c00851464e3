//go:build unix

package evidence

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// silent says what it has, tells that it is waited for, and then gives nothing until it is closed.
type silent struct {
	*strings.Reader
	waited, closed chan struct{}
}

func (s *silent) Read(p []byte) (int, error) {
	if s.Len() > 0 {
		return s.Reader.Read(p)
	}
	close(s.waited)
	<-s.closed
	return 0, io.EOF
}

// endless gives a line that is no event again and again, and interrupts after some.
type endless struct {
	reads     int
	interrupt func()
}

func (e *endless) Read(p []byte) (int, error) {
	if e.reads++; e.reads == 100 {
		e.interrupt()
	}
	for i := range p {
		p[i] = "{}\n"[i%3]
	}
	return len(p) / 3 * 3, nil
}

// interrupted reads logs, of which the reading must end with an interrupt.
func interrupted(ctx context.Context, t *testing.T, name string, stdin io.Reader) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		m, err := NewMerge(ctx, []string{name}, stdin)
		for err == nil {
			_, err = m.Next()
		}
		if m != nil {
			err = errors.Join(err, m.Close())
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		check.ErrorIs(t, err, context.Canceled, "it ended with")
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// An interrupt is noticed while nothing comes, be it before the first event or behind one.
func TestInterruptWhileNothingComes(t *testing.T) {
	for _, text := range []string{"", seconds(1, 100)} {
		ctx, interrupt := context.WithCancel(t.Context())
		in := &silent{strings.NewReader(text), make(chan struct{}), make(chan struct{})}
		go func() {
			<-in.waited
			interrupt()
		}()
		interrupted(ctx, t, "-", in)
		close(in.closed)
	}
}

// An interrupt is noticed while nothing that comes is an event.
func TestInterruptAmongMalformedLines(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupted(ctx, t, "-", &endless{interrupt: interrupt})
	cancelled, interrupt := context.WithCancel(t.Context())
	interrupt()
	path := filepath.Join(t.TempDir(), "audit.log")
	check.NoError(t, os.WriteFile(path, []byte(seconds(1, 100)), 0o600))
	interrupted(cancelled, t, path, nil)
}

// An interrupt ends the opening of a pipe without a writer, and the reading of one without data.
func TestInterruptOfPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	check.NoError(t, syscall.Mkfifo(path, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	interrupted(ctx, t, path, nil)
	// This ends what still opens the pipe.
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	check.NoError(t, err)
	defer w.Close()
	silence, interrupt := context.WithCancel(t.Context())
	go func() {
		_, _ = w.WriteString(seconds(1, 100))
		interrupt()
	}()
	interrupted(silence, t, path, nil)
}
