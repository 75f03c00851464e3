package servers

import (
	"context"
	"time"
)

// ConcurrentLists returns the incident of readers of full LISTs that take their time. They read
// from an API server, and from the proxy. An embedded server builds each answer in memory for it.
// If there is an RSSLimit, all readers are cut off when the server reaches it.
func ConcurrentLists() Replay {
	read := func(ctx context.Context, t *trial, begin func() error) (Figures, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if err := begin(); err != nil {
			return nil, err
		}
		limit, err := t.grow(ctx, t.RSSLimit, func() { cancel(errTooLarge) })
		if err != nil {
			return nil, err
		}
		broken := t.readAllSlowly(ctx, t.SlowProtobuf, t.SlowJSON)
		_, _, err = limit.stop(context.WithoutCancel(ctx))
		if cause := context.Cause(ctx); cause != nil && cause != errTooLarge {
			return nil, cause
		}
		return Figures{"readers": float64(t.SlowProtobuf + t.SlowJSON), "broken": float64(broken)}, err
	}
	return Replay{
		Every: 50 * time.Millisecond, ofAnswer: true, prepare: func(o *Options) { o.whole = true },
		Ways: []Way{{Label: "API server", load: read}, {Label: "weir-proxy", Proxy: true, load: read}},
	}
}
