package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Revision returns etcd's current revision, which is the newest resourceVersion that any object can
// have.
func (c *Cluster) Revision(ctx context.Context) (int64, error) {
	resp, err := c.etcdClient.Get(ctx, "/", clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("cluster: asking etcd for its revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// Compact makes etcd forget everything older than its current revision, which it returns. A WATCH
// that etcd answers gets 410 if it wants an event from before that revision. A WATCH from the
// revision just before it does not.
//
// The API server's watch cache does not notice. It knows every event since it was filled as long as
// there were no more than 100; after that, the newest 100, and more (up to 102,400) while they are
// younger than 75 s. Expire makes it forget them.
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

// Expire makes a WATCH from any earlier resourceVersion receive 410. It kills the API server, which
// could send the newest one in a bookmark, compacts etcd, and starts the API server again, whose
// watch cache is then filled again and knows no older event. Every connection breaks.
func (c *Cluster) Expire(ctx context.Context) error {
	c.KillAPIServer()
	// Two revisions, so that the first event after the newest resourceVersion is forgotten, too.
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
