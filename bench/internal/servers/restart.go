package servers

import (
	"context"
	"time"
)

// ThunderingRestart returns the incident of many controllers that start at once, each with an
// informer of all pods. The informers begin with a LIST, with a WATCH, or with a WATCH through the
// proxy.
func ThunderingRestart() Replay {
	by := func(join func(context.Context, *client, int) error) func(context.Context, *trial, func() error) (Figures, error) {
		return func(ctx context.Context, t *trial, begin func() error) (Figures, error) {
			if err := begin(); err != nil {
				return nil, err
			}
			return t.allAtOnce(ctx, t.Herd, join)
		}
	}
	return Replay{Every: 100 * time.Millisecond, Ways: []Way{
		{Label: "client-go, LIST", load: by(joinByList)},
		{Label: "client-go, WATCH", load: by(joinByWatch)},
		{Label: "through weir-proxy", Proxy: true, load: by(joinByWatch)},
	}}
}

// joinByWatch gets all pods as client-go's informers do since 0.35.
func joinByWatch(ctx context.Context, c *client, _ int) error {
	_, err := readInitial(ctx, c, watchFromNothing)
	return err
}

// joinByList gets all pods as client-go's informers did before.
func joinByList(ctx context.Context, c *client, _ int) error {
	_, err := countList(ctx, c, "resourceVersion=0")
	return err
}
