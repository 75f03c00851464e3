package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/testing/populations"
)

// storedAt maps resources to the names in the keys of etcd. It contains only resources whose names
// in etcd and in the API differ.
var storedAt = map[schema.GroupResource]string{
	{Resource: "nodes"}:                                                    "minions",
	{Resource: "services"}:                                                 "services/specs",
	{Resource: "endpoints"}:                                                "services/endpoints",
	{Resource: "replicationcontrollers"}:                                   "controllers",
	{Group: "networking.k8s.io", Resource: "ingresses"}:                    "ingress",
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: "apiextensions.k8s.io/customresourcedefinitions",
}

// storageKey returns the prefix of the etcd keys of a resource's objects.
func storageKey(gr schema.GroupResource) string {
	place, ok := storedAt[gr]
	if !ok {
		place = gr.Resource
	}
	return "/registry/" + place + "/"
}

// putKinds writes all objects of several kinds into etcd. It must be called before the API server
// starts, because a starting API server creates some objects if they are missing.
func (c *Cluster) putKinds(ctx context.Context, kinds []populations.Kind) error {
	start, n := time.Now(), 0
	for k := range kinds {
		kind := &kinds[k]
		_, err := putAll(ctx, kind.Len, func(ctx context.Context, i int) (int64, error) { return c.putObject(ctx, kind, kind.Object(i)) })
		if err != nil {
			return fmt.Errorf("loading %s: %w", kind.Resource, err)
		}
		n += kind.Len
	}
	if n > 0 {
		c.options.Logf("loaded %d objects of %d other kinds into etcd in %s", n, len(kinds), time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}

// putObject writes an object into etcd and returns the revision of the write.
func (c *Cluster) putObject(ctx context.Context, kind *populations.Kind, o populations.Object) (int64, error) {
	value, err := stored(kind, o)
	if err != nil {
		return 0, err
	}
	key := storageKey(kind.GroupResource())
	if o.GetNamespace() != "" {
		key += o.GetNamespace() + "/"
	}
	resp, err := c.etcdClient.Put(ctx, key+o.GetName(), value)
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// stored encodes an object as kube-apiserver stores it in etcd: JSON for a custom resource, and
// otherwise protobuf.
func stored(kind *populations.Kind, o populations.Object) (string, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		raw, err := json.Marshal(u.Object)
		if err != nil {
			return "", fmt.Errorf("encoding a %s: %w", kind.Kind, err)
		}
		return string(raw), nil
	}
	message, ok := o.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return "", fmt.Errorf("encoding a %s: %T knows no protobuf", kind.Kind, o)
	}
	return storageEncoding(kind.GroupVersion().String(), kind.Kind, message)
}
