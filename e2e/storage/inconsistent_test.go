package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// etcdsWays is a world for RunTestListInconsistentContinuation, which kube-apiserver runs on etcd
// only. Its first LIST is for a page at resourceVersion 0: kube-apiserver's cache ignores a limit
// there, and so does the watch cache. And it writes a pod that is not in the namespace of its key,
// which no API server does: the watch cache knows no other key than an object's own.
type etcdsWays struct{ *world }

// GetList turns a LIST at 0 into a consistent one.
func (e etcdsWays) GetList(ctx context.Context, key string, opts apistorage.ListOptions, out runtime.Object) error {
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = ""
	}
	return e.world.GetList(ctx, key, opts, out)
}

// GuaranteedUpdate writes into the namespace of the key.
func (e etcdsWays) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *apistorage.Preconditions,
	update apistorage.UpdateFunc, _ runtime.Object) error {
	namespace, _ := e.split(key)
	inNamespace := func(in runtime.Object, res apistorage.ResponseMeta) (runtime.Object, *uint64, error) {
		object, ttl, err := update(in, res)
		if err != nil {
			return nil, nil, err
		}
		object = object.DeepCopyObject()
		m, err := meta.Accessor(object)
		if err != nil {
			return nil, nil, err
		}
		m.SetNamespace(namespace)
		return object, ttl, nil
	}
	return e.world.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, inNamespace, nil)
}
