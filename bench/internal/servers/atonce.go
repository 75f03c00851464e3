package servers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// nextTry is how long a client waits after a request that has failed.
const nextTry = time.Second

// allAtOnce makes clients ask at once, each over connections of its own and again after a failure.
// It blocks until all have what they asked for or the options' Patience is over. The figures say
// how many have it, how many tries have failed, and, if all have it, after how long. If no client
// has it, allAtOnce returns an error.
func (t *trial) allAtOnce(ctx context.Context, clients int, ask func(ctx context.Context, c *client, i int) error) (Figures, error) {
	if err := enoughFiles(clients); err != nil {
		return nil, err
	}
	patient, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	var (
		all        sync.WaitGroup
		up, failed atomic.Int64
		mu         sync.Mutex
		last       error
	)
	begun := time.Now()
	for i := range clients {
		all.Go(func() {
			err := t.keepAsking(patient, i, ask, func() { failed.Add(1) })
			if err == nil {
				up.Add(1)
				t.told.Add(1)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			last = err
		})
	}
	all.Wait()
	f := Figures{"clients": float64(clients), "up": float64(up.Load()), "failed": float64(failed.Load())}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case last == nil:
		f["upSeconds"] = time.Since(begun).Seconds()
	case up.Load() == 0:
		return nil, fmt.Errorf("no client has got anything in %s: %w", t.Patience, last)
	default:
		t.say(fmt.Sprintf("%d of %d clients have got nothing in %s: %v", clients-int(up.Load()), clients, t.Patience, last))
	}
	return f, nil
}

// keepAsking asks until there is an answer or ctx ends. The error is that of the last try that was
// not cut off by the end of ctx, if there was one.
func (t *trial) keepAsking(ctx context.Context, i int, ask func(ctx context.Context, c *client, i int) error, failed func()) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	defer c.close()
	var last error
	for {
		t.requests.Add(1)
		err := ask(ctx, c, i)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && last != nil:
			return last
		case ctx.Err() != nil:
			return err
		}
		failed()
		last = err
		select {
		case <-time.After(nextTry):
		case <-ctx.Done():
			return last
		}
	}
}
