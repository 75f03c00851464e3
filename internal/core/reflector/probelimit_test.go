package reflector

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a source of which an answer takes that long.
type slow struct {
	tape
	takes time.Duration
}

func (s *slow) NewestVersion(ctx context.Context, _ string) (string, error) {
	select {
	case <-time.After(s.takes):
		return "7", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// TestProbeLimit asks a server whose answers take longer than an answer should: the questions must
// come to one in the end.
func TestProbeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &slow{takes: 29 * time.Second}
		r := &Reflector{src: source}
		ask := func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			_, err := r.newestVersion(ctx, "")
			return time.Since(began), err
		}
		for _, want := range []struct {
			waits time.Duration
			err   error
		}{{10 * time.Second, context.DeadlineExceeded}, {20 * time.Second, context.DeadlineExceeded}, {29 * time.Second, nil}, {29 * time.Second, nil}} {
			if waited, err := ask(t.Context()); waited != want.waits || !errors.Is(err, want.err) {
				t.Errorf("waited %v: %v, want %v: %v", waited, err, want.waits, want.err)
			}
		}
		// A caller that gives up has learned nothing of the server.
		ended, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if waited, err := ask(ended); waited != time.Second || err == nil {
			t.Errorf("waited %v: %v", waited, err)
		}
		source.takes = time.Hour
		for _, want := range []time.Duration{58, 60, 60} {
			if waited, err := ask(t.Context()); waited != want*time.Second || err == nil {
				t.Errorf("waited %v: %v, want %d s", waited, err, want)
			}
		}
		// A list that came at once says that it is the question that is not answered; one that did
		// not, how slow all is.
		for _, listed := range []struct{ took, limit time.Duration }{{time.Second, 10 * time.Second}, {25 * time.Second, 50 * time.Second}, {time.Hour, time.Minute}} {
			r.probeLimit.listed(listed.took)
			if waited, _ := ask(t.Context()); waited != listed.limit {
				t.Errorf("after a list that took %v: waited %v, want %v", listed.took, waited, listed.limit)
			}
		}
	})
}
