package servers

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/time/rate"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
)

// follower reads a WATCH and records the resourceVersions that a cache would have. It is not safe
// for concurrent use.
type follower struct {
	watch *wire.WatchReader
	meta  wire.Meta
	key   []byte

	last    map[string]uint64 // the newest resourceVersion of each object
	initial bool              // all initial events were read
	newest  uint64            // the resourceVersion of the last event after the initial ones
	events  int64
	back    int // the number of events that were older than an earlier one
}

func newFollower(watch *wire.WatchReader) *follower {
	return &follower{watch: watch, last: map[string]uint64{}}
}

// errClosed is wrapped by the error of a watch that the server has ended.
var errClosed = errors.New("the server closed the watch")

// next reads one event. If the watch has ended, the error wraps errClosed.
func (f *follower) next() error {
	e, err := f.watch.Next()
	if err != nil {
		return fmt.Errorf("%w: %w", errClosed, err)
	}
	f.events++
	return f.take(e)
}

func (f *follower) take(e wire.Event) error {
	if e.Type == wire.Error {
		return fmt.Errorf("%w: %w", errClosed, wire.DecodeStatus(wire.Protobuf, e.Object))
	}
	if err := wire.ReadMeta(wire.Protobuf, e.Object, &f.meta); err != nil {
		return err
	}
	rv, err := resourceversion.Parse(f.meta.ResourceVersion)
	if err != nil {
		return fmt.Errorf("an event without resourceVersion: %w", err)
	}
	if e.Type == wire.Bookmark {
		f.initial = f.initial || f.meta.InitialEventsEnd()
		return nil
	}
	f.key = wire.AppendKey(f.key[:0], &f.meta)
	if rv <= f.last[string(f.key)] || f.initial && rv < f.newest {
		f.back++
	}
	if f.initial {
		f.newest = rv
	}
	f.last[string(f.key)] = rv
	return nil
}

// follow reads events at a limited rate until done returns true. It calls done before each event.
// If the watch has ended, the error wraps errClosed. If ctx has ended, the error is ctx's error.
func (f *follower) follow(ctx context.Context, l *rate.Limiter, done func() bool) error {
	for !done() {
		if l.Wait(ctx) != nil { // ctx ends before the limiter allows the next event
			<-ctx.Done()
			return ctx.Err()
		}
		if err := f.next(); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
	}
	return nil
}

// missing returns the resourceVersions that the follower has not read yet, by key. written contains
// the newest written resourceVersion of each object, in the order of keys.
func (f *follower) missing(keys []string, written []uint64) map[string]uint64 {
	out := map[string]uint64{}
	for i, key := range keys {
		if written[i] > f.last[key] {
			out[key] = written[i]
		}
	}
	return out
}

// catchUp reads events at an unlimited rate until no written change is missing. gaps is the number
// of objects whose changes are still missing at the end.
func (f *follower) catchUp(ctx context.Context, keys []string, written []uint64) (gaps int, err error) {
	missing := f.missing(keys, written)
	err = f.follow(ctx, newLimiter(0), func() bool {
		if rv, ok := missing[string(f.key)]; ok && f.last[string(f.key)] >= rv {
			delete(missing, string(f.key))
		}
		return len(missing) == 0
	})
	return len(missing), err
}

// drain reads a watch until it ends, and calls count for each event. It always returns an error,
// which is errClosed if the server has ended the watch.
func drain(watch *wire.WatchReader, count func(wire.EventType)) error {
	for {
		e, err := watch.Next()
		if err == io.EOF {
			return errClosed
		}
		if err != nil {
			return err
		}
		if e.Type == wire.Error {
			return fmt.Errorf("%w: %w", errClosed, wire.DecodeStatus(wire.Protobuf, e.Object))
		}
		count(e.Type)
	}
}
