package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const objectsName = "kube-objects"

// FuzzedKind describes the objects of one kind that PutFuzzed writes.
type FuzzedKind struct {
	Resource schema.GroupResource
	Kind     string
	// Versions are versions of the kind's group. Each object can be converted to all of them, and is
	// stored in the first.
	Versions  []string
	Namespace string // empty if the objects are cluster-scoped
	Names     []string
}

// key returns the key of an object in etcd.
func (k *FuzzedKind) key(name string) string {
	if k.Namespace != "" {
		name = k.Namespace + "/" + name
	}
	return storageKey(k.Resource) + name
}

// PutFuzzed writes objects with random values into etcd, one after the other. It overwrites
// existing objects. It returns the revision of the last write. The values come from the fuzzers
// that Kubernetes uses to test its conversions. kube-apiserver can read these objects, but would
// reject them from a client. The values depend only on seed and kinds.
func (c *Cluster) PutFuzzed(ctx context.Context, seed int64, kinds []FuzzedKind) (newest int64, err error) {
	lines, err := c.fuzzed(ctx, seed, kinds)
	if err != nil {
		return 0, fmt.Errorf("cluster: making objects: %w", err)
	}
	for _, line := range lines {
		k := &kinds[line.Kind]
		resp, err := c.etcdClient.Put(ctx, k.key(k.Names[line.Name]), string(line.Value))
		if err != nil {
			return 0, fmt.Errorf("cluster: loading %s: %w", k.Resource, err)
		}
		newest = resp.Header.Revision
	}
	return newest, nil
}

// DeleteFuzzed deletes objects from etcd, one after the other. It ignores objects that do not
// exist. It returns etcd's revision after the last deletion.
func (c *Cluster) DeleteFuzzed(ctx context.Context, kinds []FuzzedKind) (newest int64, err error) {
	for i := range kinds {
		for _, name := range kinds[i].Names {
			resp, err := c.etcdClient.Delete(ctx, kinds[i].key(name))
			if err != nil {
				return 0, fmt.Errorf("cluster: deleting %s: %w", kinds[i].Resource, err)
			}
			newest = resp.Header.Revision
		}
	}
	return newest, nil
}

// fuzzedObject is a line of the output of kube-objects: an encoded object, the index of its kind,
// and the index of its name in that kind.
type fuzzedObject struct {
	Kind, Name int
	Value      []byte
}

// fuzzed runs kube-objects, and returns one line for each requested object.
func (c *Cluster) fuzzed(ctx context.Context, seed int64, kinds []FuzzedKind) (lines []fuzzedObject, err error) {
	dir, err := build(ctx, c.options.Logf, etcdName, apiserverName, objectsName)
	if err != nil {
		return nil, err
	}
	type kind struct {
		Group, Kind     string
		Versions, Names []string
		Namespace       string
	}
	wanted := struct {
		Seed  int64
		Kinds []kind
	}{Seed: seed}
	n := 0
	for _, k := range kinds {
		wanted.Kinds = append(wanted.Kinds, kind{k.Resource.Group, k.Kind, k.Versions, k.Names, k.Namespace})
		n += len(k.Names)
	}
	request, err := json.Marshal(wanted)
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, objectsName))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", objectsName, errors.Join(err, ctx.Err()), bytes.TrimSpace(stderr.Bytes()))
	}
	for d := json.NewDecoder(&stdout); d.More(); {
		var line fuzzedObject
		if err := d.Decode(&line); err != nil {
			return nil, fmt.Errorf("%s: %w", objectsName, err)
		}
		lines = append(lines, line)
	}
	if len(lines) != n {
		return nil, fmt.Errorf("%s: it made %d objects of %d", objectsName, len(lines), n)
	}
	return lines, nil
}

// PutStored writes one object into etcd, and overwrites an existing one. namespace is empty if the
// object is cluster-scoped. value is the object's JSON or protobuf, in any version that
// kube-apiserver can read.
func (c *Cluster) PutStored(ctx context.Context, resource schema.GroupResource, namespace, name string, value []byte) error {
	k := FuzzedKind{Resource: resource, Namespace: namespace}
	if _, err := c.etcdClient.Put(ctx, k.key(name), string(value)); err != nil {
		return fmt.Errorf("cluster: storing %s of %s: %w", name, resource, err)
	}
	return nil
}
