package reflector

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// pacing is a store whose handlers are behind, and the throttle of its writer.
type pacing struct {
	*testing.T
	s        *store.Store
	w        *store.Writer
	throttle throttle
	ctx      context.Context
	encoding wire.Encoding // of the watch
}

func newPacing(t *testing.T, ctx context.Context) *pacing {
	s := store.New(store.Config{Encoding: wire.Protobuf})
	return &pacing{T: t, s: s, w: s.Writer(store.Scope{}), ctx: ctx}
}

func (p *pacing) change(n int) {
	p.Helper()
	for i := range n {
		m := wire.Meta{Namespace: []byte("d"), Name: strconv.AppendInt(nil, int64(i%100), 10), UID: []byte("u"), ResourceVersion: strconv.AppendInt(nil, int64(i)+1, 10)}
		check.NoError(p, p.w.Put(&m, []byte{0x0a, 0}))
	}
	p.w.Flush()
}

// handle reads a cursor as a handler does that takes so long for an event, until stop is called.
func (p *pacing) handle(c *store.Cursor, per time.Duration, batch int) (stop func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(per * time.Duration(batch))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.Next(make([]store.Change, batch))
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended) }
}

// took is how long maxBatch events take that are there at once.
func (p *pacing) took() time.Duration {
	begin := time.Now()
	p.throttle.wait(p.ctx, p.w, maxBatch, longestWait(p.encoding))
	return time.Since(begin)
}

// TestThrottle: events take a little longer than a handler that is behind takes for them, whatever
// of its batches is seen between two looks, up to a bound; with a handler that keeps up, or does
// not go on, nothing waits.
func TestThrottle(t *testing.T) {
	for name, test := range map[string]struct {
		per    time.Duration // that each handler takes
		batch  int           // that it reads at once
		behind bool
		json   bool
		want   time.Duration // for an event
	}{
		"a quick handler":              {20 * time.Microsecond, 10, true, false, 22500 * time.Nanosecond},
		"one that takes longer":        {60 * time.Microsecond, 10, true, false, 67500 * time.Nanosecond},
		"one that reads much at once":  {60 * time.Microsecond, 300, true, false, 67500 * time.Nanosecond},
		"a slow one":                   {400 * time.Microsecond, 10, true, false, maxThrottle * 9 / 8},
		"a slow one of JSON":           {400 * time.Microsecond, 10, true, true, 450 * time.Microsecond},
		"a slower one of JSON":         {2 * time.Millisecond, 10, true, true, maxThrottleJSON * 9 / 8},
		"one that waits for something": {20 * time.Millisecond, 100, true, false, 0}, // reads none
		"one that keeps up":            {60 * time.Microsecond, 10, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				p := newPacing(t, ctx)
				defer p.s.Close()
				if test.json {
					p.encoding = wire.JSON
				}
				c := p.s.Cursor()
				defer c.Close()
				if p.took() != 0 {
					t.Error("the first events waited")
				}
				if test.behind {
					p.change(1 << 14) // more than any of them handles here
				}
				defer p.handle(c, test.per, test.batch)()
				// By twenty looks the mean of what the handler takes has come near, whatever the first gave.
				for begin, n := time.Now(), 0; n < 20 || time.Since(begin) < 60*time.Millisecond; n++ {
					time.Sleep(time.Millisecond) // to take a batch in
					p.took()
				}
				// Over ten of the largest batches, as two that fall due in one moment come in any order.
				begin, n := time.Now(), 0
				for ; n < 10 || time.Since(begin) < 180*time.Millisecond; n++ {
					time.Sleep(time.Millisecond)
					p.took()
				}
				got, least := time.Since(begin)/time.Duration(n*maxBatch), time.Millisecond/maxBatch
				if want := max(test.want, least); got < want*8/10 || got > want*12/10 {
					t.Errorf("an event took %v, want %v", got, want)
				}
				if cancel(); p.took() != 0 {
					t.Error("waited longer than the reflector runs")
				}
			})
		})
	}
}

// TestThrottleOfTwo: with two handlers behind, what they take in the mean counts.
func TestThrottleOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacing(t, t.Context())
		defer p.s.Close()
		a, b := p.s.Cursor(), p.s.Cursor()
		defer a.Close()
		defer b.Close()
		p.took()
		p.change(1 << 14) // more than either handler reads here
		defer p.handle(a, 100*time.Microsecond, 10)()
		defer p.handle(b, 25*time.Microsecond, 10)()
		for range 25 {
			time.Sleep(time.Millisecond)
			p.took()
		}
		time.Sleep(time.Millisecond)
		if n := p.took() + time.Millisecond; n < maxBatch*35*time.Microsecond || n > maxBatch*55*time.Microsecond {
			t.Errorf("%v for %d events of handlers that take 25 and 100 µs", n, maxBatch)
		}
	})
}
