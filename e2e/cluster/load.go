package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/internal/testing/populations"
)

// loaders is how many goroutines write to etcd at the same time.
const loaders = 64

// cacheTimeout bounds the time until the API server's watch cache contains the loaded objects.
const cacheTimeout = 3 * time.Minute

// LoadPods writes the pods and their namespaces directly into etcd. Each object has its own
// resourceVersion, because each is a separate write. Existing pods are overwritten. If the API
// server runs, LoadPods waits until the server's watch cache contains all the pods.
func (c *Cluster) LoadPods(ctx context.Context, pods Pods) error {
	newest, err := c.putObjects(ctx, pods)
	if err == nil && c.first().Running() {
		err = c.waitForCache(ctx, pods, newest)
	}
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// putObjects writes the pods and their namespaces into etcd. It returns the revision of the last
// write.
func (c *Cluster) putObjects(ctx context.Context, pods Pods) (int64, error) {
	start := time.Now()
	if err := c.putNamespaces(ctx, pods.Namespaces()); err != nil {
		return 0, fmt.Errorf("loading namespaces: %w", err)
	}
	newest, err := putAll(ctx, pods.Len(), func(ctx context.Context, i int) (int64, error) { return c.putObject(ctx, &podKind, pods.Pod(i)) })
	if err != nil {
		return 0, fmt.Errorf("loading pods: %w", err)
	}
	c.options.Logf("loaded %d pods into etcd in %s", pods.Len(), time.Since(start).Round(100*time.Millisecond))
	return newest, nil
}

var podKind = populations.Kind{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"}

// putAll calls put for each i below n, from several goroutines at the same time. It stops after the
// first error. It returns the highest revision and that error.
func putAll(ctx context.Context, n int, put func(ctx context.Context, i int) (int64, error)) (int64, error) {
	loading, ctx := errgroup.WithContext(ctx)
	loading.SetLimit(loaders)
	var newest atomic.Int64
	for i := range n {
		loading.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			revision, err := put(ctx, i)
			for seen := newest.Load(); revision > seen && !newest.CompareAndSwap(seen, revision); seen = newest.Load() {
			}
			return err
		})
	}
	err := loading.Wait()
	return newest.Load(), err
}

func (c *Cluster) putNamespaces(ctx context.Context, names []string) error {
	for _, name := range names {
		h := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
		value, err := storageEncoding("v1", "Namespace", &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name:              name,
				UID:               types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]),
				CreationTimestamp: metav1.Now(),
				Labels:            map[string]string{corev1.LabelMetadataName: name},
			},
			Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		})
		if err != nil {
			return err
		}
		key := "/registry/namespaces/" + name
		absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		if _, err := c.etcdClient.Txn(ctx).If(absent).Then(clientv3.OpPut(key, value)).Commit(); err != nil {
			return err
		}
	}
	return nil
}

// storageEncoding returns the protobuf encoding in which kube-apiserver stores a built-in object.
func storageEncoding(apiVersion, kind string, obj interface{ Marshal() ([]byte, error) }) (string, error) {
	raw, err := obj.Marshal()
	if err != nil {
		return "", fmt.Errorf("encoding a %s: %w", kind, err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	if raw, err = envelope.Marshal(); err != nil {
		return "", fmt.Errorf("encoding a %s: %w", kind, err)
	}
	return "k8s\x00" + string(raw), nil
}

// waitForCache waits until the API server's watch cache has reached revision. It repeats a GET of a
// pod with this resourceVersion until the GET succeeds. Before the watch cache has reached the
// revision, it answers with an error.
func (c *Cluster) waitForCache(ctx context.Context, pods Pods, revision int64) error {
	if pods.Len() == 0 {
		return nil
	}
	start := time.Now()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	pod := pods.Pod(0)
	options := metav1.GetOptions{ResourceVersion: fmt.Sprint(revision)}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, cacheTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, options)
		if apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server to see the pods: %w", err)
	}
	c.options.Logf("the API server has them %s later", time.Since(start).Round(100*time.Millisecond))
	return nil
}
