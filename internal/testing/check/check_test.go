package check

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// failing is a testing.TB that records the message of a failed check.
type failing struct {
	testing.TB
	failure string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.failure = "fatal: " + fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *failing) Errorf(format string, args ...any) { f.failure = fmt.Sprintf(format, args...) }

// TestChecks checks that a check reports nothing if it succeeds, and what it compared if it fails.
func TestChecks(t *testing.T) {
	for want, run := range map[string]func(t testing.TB){
		"":                       func(t testing.TB) { NoError(t, nil); Equal(t, 1, 1); ErrorIs(t, fmt.Errorf("a: %w", io.EOF), io.EOF) },
		"fatal: broken":          func(t testing.TB) { NoError(t, errors.New("broken")); t.Errorf("it continues") },
		"got <nil>, want EOF":    func(t testing.TB) { ErrorIs(t, nil, io.EOF) },
		"of b: <nil>, want EOF":  func(t testing.TB) { ErrorIs(t, nil, io.EOF, "of %s", "b") },
		"got 1, want 2":          func(t testing.TB) { Equal(t, 1, 2) },
		"pods: 1, want 2":        func(t testing.TB) { Equal(t, 1, 2, "pods") },
		"of b: true, want false": func(t testing.TB) { Equal(t, true, false, "of %s", "b") },
		`got "", want "x"`:       func(t testing.TB) { Equal(t, "", "x") },
		"told:\na\nb\nwant\nc":   func(t testing.TB) { Equal(t, "a\nb", "c", "told") },
	} {
		f, done := &failing{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			run(f)
		}()
		if <-done; f.failure != want {
			t.Errorf("got %q, want %q", f.failure, want)
		}
	}
}
