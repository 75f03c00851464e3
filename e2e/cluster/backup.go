package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

const backupDir = "etcd-backup"

// Backup copies etcd's data directory, and replaces an earlier copy. It stops etcd for the time of
// the copy. The API servers stay running.
func (c *Cluster) Backup(ctx context.Context) error {
	if err := c.withoutEtcd(ctx, func() error { return replaceDir(c.path(backupDir), c.path(etcdDataDir)) }); err != nil {
		return fmt.Errorf("cluster: copying etcd's data: %w", err)
	}
	return nil
}

// Restore replaces etcd's data by the copy that Backup made. All writes after the backup are lost,
// and later writes use their resourceVersions again. Restore kills the running API servers, and
// starts them after the data is replaced.
func (c *Cluster) Restore(ctx context.Context) error {
	var running []*APIServer
	for _, s := range c.APIServers() {
		if s.Running() {
			running = append(running, s)
			s.Kill()
		}
	}
	if err := c.withoutEtcd(ctx, func() error { return replaceDir(c.path(etcdDataDir), c.path(backupDir)) }); err != nil {
		return fmt.Errorf("cluster: restoring etcd's data: %w", err)
	}
	for _, s := range running {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

// withoutEtcd kills etcd, calls f, and starts etcd again at the same address.
func (c *Cluster) withoutEtcd(ctx context.Context, f func() error) error {
	c.mu.Lock()
	old := c.etcd
	c.mu.Unlock()
	old.Stop()
	if err := f(); err != nil {
		return err
	}
	return c.runEtcd(ctx)
}

// replaceDir replaces one directory (to) by a copy of another one (from).
func replaceDir(to, from string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}
