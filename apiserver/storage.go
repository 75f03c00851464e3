package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// storage stores the objects of one resource. All served versions of the resource share it. It does
// one write at a time.
type storage struct {
	clock    *revisionClock
	encoding wire.Encoding
	// apiVersion is the apiVersion inside stored unstructured objects. The first registered version
	// determines it.
	apiVersion string

	store   *store.Store
	history *watchcache.History

	mu           sync.Mutex    // held during a whole read-modify-write
	writer       *store.Writer // used with mu held, within clock.advance
	unregistered bool          // the resource is no longer served
	meta         wire.Meta
}

// errUnregistered is returned to a write that was in progress when its resource was unregistered.
var errUnregistered = errors.New("apiserver: the resource is no longer served")

func newStorage(c *revisionClock, enc wire.Encoding, apiVersion string, logBytes int64) *storage {
	st := store.New(store.Config{Encoding: enc, KeepLog: true, LogBytes: logBytes})
	s := &storage{clock: c, encoding: enc, apiVersion: apiVersion, store: st, writer: st.Writer(store.Scope{})}
	c.Observe(func(rv uint64) { // with an empty list, the store counts as synced
		s.writer.BeginReplace(false)
		s.writer.EndReplace(resourceversion.Format(rv))
		s.history = watchcache.NewHistory(0, rv, st.Revision())
	})
	return s
}

// put stores an object with the next resourceVersion, and returns its encoding with this
// resourceVersion. The caller holds s.mu.
func (s *storage) put(raw []byte) ([]byte, error) { return s.write(raw, s.writer.Put) }

// remove deletes an object, and returns its encoding with the resourceVersion of the deletion. The
// caller holds s.mu.
func (s *storage) remove(raw []byte) ([]byte, error) { return s.write(raw, s.writer.Delete) }

// write sets the next resourceVersion in a copy of an encoded object, passes the copy to put, and
// makes the write visible to readers. It returns the copy.
func (s *storage) write(raw []byte, put func(*wire.Meta, []byte) error) ([]byte, error) {
	var out []byte
	err := s.clock.advance(func(rv uint64) (err error) {
		if out, err = s.stamp(raw, rv); err != nil {
			return err
		}
		before := s.store.Revision()
		if err := put(&s.meta, out); err != nil {
			return err
		}
		s.apply(rv, before)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	return out, nil
}

// stamp returns a copy of raw with resourceVersion rv, and sets s.meta to the copy's metadata.
func (s *storage) stamp(raw []byte, rv uint64) ([]byte, error) {
	out, err := wire.AppendWithResourceVersion(nil, s.encoding, raw, resourceversion.Format(rv))
	if err != nil {
		return nil, err
	}
	return out, wire.ReadMeta(s.encoding, out, &s.meta)
}

// apply makes the write at rv visible to readers. before is the store's revision before the write.
// If the revision has increased, the write has changed the store, and apply adds rv to the history.
// The revision may have increased even before Flush, because the writer's Put makes a large object
// visible immediately.
func (s *storage) apply(rv, before uint64) {
	if s.writer.Flush(); s.store.Revision() > before {
		s.history.Add(rv, s.store.Revision())
	}
	s.writer.Progress(resourceversion.Format(rv))
}

func (s *storage) get(key string) (raw []byte, ok bool, err error) {
	o, ok := s.store.Get(key)
	if !ok {
		return nil, false, nil
	}
	raw, err = o.AppendRaw(nil)
	return raw, true, err
}

// deleteAll deletes all objects. The storage refuses later writes.
func (s *storage) deleteAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unregistered = true
	for o := range s.store.Snapshot().All() {
		raw, err := o.AppendRaw(nil)
		if err != nil {
			continue // watchers cannot read the object either
		}
		_, _ = s.remove(raw)
	}
}

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// revisionClock is the server's counter of resourceVersions, like the revision of etcd. Every write
// uses the next resourceVersion. The zero value starts at 0. It is safe for concurrent use.
type revisionClock struct {
	mu       sync.RWMutex
	now      uint64
	advanced chan struct{} // closed when now increases; nil if no caller waits
}

// advance calls write with the next resourceVersion. A concurrent Observe sees both the write and
// the new counter, or neither. If write returns an error, it must have changed nothing, and the
// counter does not change.
func (c *revisionClock) advance(write func(resourceVersion uint64) error) error {
	return c.advanceBy(1, write)
}

// advanceBy reserves n resourceVersions, and calls write with the last of them.
func (c *revisionClock) advanceBy(n uint64, write func(resourceVersion uint64) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := write(c.now + n); err != nil {
		return err
	}
	c.now += n
	if c.advanced != nil {
		close(c.advanced)
		c.advanced = nil
	}
	return nil
}

// Observe implements watchcache.Clock.
func (c *revisionClock) Observe(f func(resourceVersion uint64)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f(c.now)
}

// Wait implements watchcache.Clock.
func (c *revisionClock) Wait(ctx context.Context, resourceVersion uint64) error {
	for {
		c.mu.Lock()
		if c.now >= resourceVersion {
			c.mu.Unlock()
			return nil
		}
		if c.advanced == nil {
			c.advanced = make(chan struct{})
		}
		advanced := c.advanced
		c.mu.Unlock()
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
