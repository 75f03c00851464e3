package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Revision returns etcd's current revision, which is the highest resourceVersion that any object
// can have now.
func (c *Cluster) Revision(ctx context.Context) (int64, error) {
	resp, err := c.etcdClient.Get(ctx, "/", clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("cluster: asking etcd for its revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// Compact makes etcd drop all history before its current revision, and returns that revision. If
// etcd itself answers a WATCH that needs an earlier event, the WATCH gets 410. A WATCH from the
// revision just before the returned one does not.
//
// The API server's watch cache is unaffected. It stores all events since it was filled, up to 100.
// Beyond that, it stores the newest 100, and more (up to 102,400) while they are younger than 75 s.
// Expire drops these events too.
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

// Expire makes a WATCH from any earlier resourceVersion receive 410. It kills the API server,
// compacts etcd, and starts the API server again, whose watch cache is then filled again and
// contains no older event. The API server must be dead before the compaction, because it could send
// the newest resourceVersion in a bookmark. Every connection breaks.
func (c *Cluster) Expire(ctx context.Context) error {
	c.KillAPIServer()
	// Write two revisions, so that the compaction also drops the first event after the newest
	// resourceVersion.
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

// Advance writes to etcd until its revision is at least the given one.
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
