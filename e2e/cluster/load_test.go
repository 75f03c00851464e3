package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// TestPutAll checks that putAll starts no more calls after the first error, and returns that error.
func TestPutAll(t *testing.T) {
	failed := errors.New("no space")
	var calls atomic.Int64
	_, err := putAll(t.Context(), 100*loaders, func(ctx context.Context, i int) (int64, error) {
		calls.Add(1)
		if i == 0 {
			return 0, failed
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if n := calls.Load(); n > loaders || err != failed {
		t.Errorf("%d calls, then %v", n, err)
	}
}
