package servers

import (
	"context"
	"time"
)

// pause blocks for the duration d. If ctx ends first, it returns ctx's cause.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
