package testenv

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEventuallyNoError checks that EventuallyNoError calls ask until it returns nil, and that most
// pauses between the calls are maxPause.
func TestEventuallyNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		EventuallyNoError(t, t.Context(), "a minute is over", func() error {
			asked++
			if time.Since(began) < time.Minute {
				return errors.New("not yet")
			}
			return nil
		})
		if most := int(time.Minute/maxPause) + 10; asked > most || asked < most/2 {
			t.Errorf("asked %d times in a minute", asked)
		}
	})
}

// failing is a testing.TB that records the message of Fatalf.
type failing struct {
	testing.TB
	failure string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestEventuallyInVain checks that Eventually ends the test when the context ends, with a message
// that contains the condition and the context's cause.
func TestEventuallyInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too late"))
		defer cancel()
		f := &failing{TB: t}
		go Eventually(f, ctx, "pigs fly", func() bool { return false })
		<-ctx.Done()
		synctest.Wait()
		for _, part := range []string{"until pigs fly", "too late", errNot.Error()} {
			if !strings.Contains(f.failure, part) {
				t.Errorf("%q has no %q", f.failure, part)
			}
		}
	})
}
