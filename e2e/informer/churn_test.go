package informer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// churn writes to pods: it changes labels, and deletes and creates pods. stop ends the writes, and
// waits until the last one has returned.
type churn struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	writes atomic.Int64
}

func startChurn(t *testing.T, ctx context.Context, client kubernetes.Interface, writers int) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{cancel: cancel}
	sim := podsim.New(pods, 1)
	for w := range writers {
		r := rand.New(rand.NewPCG(7, uint64(w)))
		c.wg.Go(func() {
			for ctx.Err() == nil {
				// Each writer changes its own pods, so that writes do not conflict.
				p := sim.Pod(r.IntN(pods/writers)*writers + w)
				if err := touch(ctx, client, p, r); err != nil && ctx.Err() == nil && !unreachable(err) {
					t.Error(err)
					return
				}
				c.writes.Add(1)
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *churn) stop() {
	c.cancel()
	c.wg.Wait()
}

// unreachable reports whether err can come from an API server that is down or starting.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsForbidden(err) || apierrors.IsInternalError(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// touch sends one write to a pod. It deletes the pod in one of ten cases, and otherwise changes a
// label. If the pod does not exist, touch creates it instead of changing its label.
func touch(ctx context.Context, client kubernetes.Interface, p *corev1.Pod, r *rand.Rand) error {
	api := client.CoreV1().Pods(p.Namespace)
	if r.IntN(10) == 0 {
		err := api.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{"churn":"%d"}}}`, r.Uint32())
	_, err := api.Patch(ctx, p.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	p.ResourceVersion, p.UID = "", ""
	p.Spec.ServiceAccountName = ""
	_, err = api.Create(ctx, p, metav1.CreateOptions{})
	return err
}

// TestSyncAndFollowUnderChurn runs an informer while pods change, in each mode to read the initial
// state. It checks the informer's objects, its events and an index.
func TestSyncAndFollowUnderChurn(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := begin(t)
			client := admin(t)
			writes := startChurn(t, ctx, client, 4)
			opts := weir.Options{Indexes: map[string]weir.Index{"node": weir.ByField("spec.nodeName")}}
			opts.ListWatch.Mode = mode
			inf := run[*corev1.Pod](t, ctx, shared.Config(), opts)
			seen := newView(t, inf)
			check.NoError(t, inf.WaitForSync(ctx))
			testenv.Eventually(t, ctx, "there are 1000 writes", func() bool { return writes.writes.Load() > 1000 })
			writes.stop()
			equal(t, ctx, client, inf)
			seen.check(ctx)
			checkIndex(t, inf)
		})
	}
}

// checkIndex compares the index by node with all objects of the informer.
func checkIndex(t *testing.T, inf *weir.Informer[*corev1.Pod]) {
	t.Helper()
	want := map[string]int{}
	snapshot := inf.Snapshot()
	for p := range snapshot.All() {
		want[p.Spec.NodeName]++
	}
	for node, n := range want {
		if node == "" {
			continue
		}
		for p, err := range snapshot.By("node", node) {
			if err != nil || p.Spec.NodeName != node {
				t.Fatalf("index node=%s gives %v, %v", node, p, err)
			}
			n--
		}
		check.Equal(t, n, 0, "index node=%s is off by", node)
	}
}
