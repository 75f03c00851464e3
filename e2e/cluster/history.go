package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Revision returns etcd's current revision. No object has a higher resourceVersion now.
func (c *Cluster) Revision(ctx context.Context) (int64, error) {
	resp, err := c.etcdClient.Get(ctx, "/", clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("cluster: asking etcd for its revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// Compact compacts etcd at its current revision, and returns that revision. Events before that
// revision are lost. A WATCH that etcd itself must answer gets 410 if it needs a lost event. A
// WATCH from the revision just before the returned one needs no lost event.
//
// Compact does not change the API server's watch cache. The cache stores the newest 100 events that
// it has received. It stores more events (up to 102,400) while they are younger than 75 s. Expire
// drops these events too.
func (c *Cluster) Compact(ctx context.Context) (int64, error) {
	revision, err := c.Revision(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := c.etcdClient.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
		return 0, fmt.Errorf("cluster: compacting etcd at revision %d: %w", revision, err)
	}
	return revision, nil
}

// Expire makes the API server answer 410 to a WATCH from any earlier resourceVersion. It kills the
// API server, compacts etcd, and starts the API server. The new watch cache contains no earlier
// event. All connections of the API server break. Expire kills the API server before the
// compaction, because a running server could send the newest resourceVersion in a bookmark.
func (c *Cluster) Expire(ctx context.Context) error {
	c.KillAPIServer()
	// A WATCH from the current revision needs the event of the first write. After the second write,
	// that event is older than the revision at which etcd is compacted.
	for range 2 {
		if _, err := c.etcdClient.Put(ctx, "/weir-e2e/expired", ""); err != nil {
			return fmt.Errorf("cluster: writing to etcd: %w", err)
		}
	}
	if _, err := c.Compact(ctx); err != nil {
		return err
	}
	return c.StartAPIServer(ctx)
}

// Advance writes to etcd until etcd's revision is at least the given one.
func (c *Cluster) Advance(ctx context.Context, revision int64) error {
	for now := int64(0); now < revision; {
		resp, err := c.etcdClient.Put(ctx, "/weir-e2e/advanced", "")
		if err != nil {
			return fmt.Errorf("cluster: writing to etcd: %w", err)
		}
		now = resp.Header.Revision
	}
	return nil
}
