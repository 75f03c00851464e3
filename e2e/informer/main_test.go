package informer

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// pods is the number of pods in the shared cluster.
const pods = 3000

// deadline bounds every wait of these tests. It is long because no test measures time.
const deadline = 2 * time.Minute

// shared is the cluster of all tests of this package. The tests run one after another, because some
// of them kill its API server.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, 15*time.Minute, func(ctx context.Context) (c *cluster.Cluster, err error) {
		shared, err = cluster.Start(ctx, cluster.Options{
			Authorization: cluster.RBAC,
			Users:         []cluster.User{{Name: "stranger"}},
			Logf:          cluster.LogToStderr,
		})
		if err != nil {
			return nil, err
		}
		return shared, shared.LoadPods(ctx, podsim.New(pods, 1))
	}))
}

// begin returns the context of a test, and checks at the end of the test that no goroutine leaks.
func begin(t *testing.T) context.Context {
	t.Helper()
	return shared.Begin(t, deadline)
}

// run runs an informer until the test ends.
func run[T weir.Object](t *testing.T, ctx context.Context, cfg *rest.Config, opts weir.Options) *weir.Informer[T] {
	t.Helper()
	inf, err := weir.NewInformer[T](cfg, opts)
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := inf.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return inf
}

// admin returns a client that may do everything. Its connections are closed when the test ends.
func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	cfg := shared.Config()
	set, err := kubernetes.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	return set
}

// marker creates a pod and returns the pod's resourceVersion. An informer that has reached this
// resourceVersion has received all earlier writes.
func marker(t *testing.T, ctx context.Context, client kubernetes.Interface) string {
	t.Helper()
	pod, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	check.NoError(t, err)
	return pod.ResourceVersion
}

// equal waits until the informer has received all writes, and checks that its objects equal the
// objects of a quorum LIST.
func equal(t *testing.T, ctx context.Context, client kubernetes.Interface, inf *weir.Informer[*corev1.Pod]) {
	t.Helper()
	check.NoError(t, inf.WaitForResourceVersion(ctx, marker(t, ctx, client)))
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	snapshot := inf.Snapshot()
	if snapshot.Len() != len(list.Items) {
		t.Errorf("the informer holds %d pods, the server %d", snapshot.Len(), len(list.Items))
	}
	for i := range list.Items {
		want := &list.Items[i]
		got, err := snapshot.Get(want.Namespace + "/" + want.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s/%s: the informer holds resourceVersion %s, the server %s", want.Namespace, want.Name, got.ResourceVersion, want.ResourceVersion)
		}
	}
}
