package controllerruntime

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	ours "github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

const pods = 500

// deadline bounds every wait of these tests. It is long because no test measures time.
const deadline = 90 * time.Second

// shared is the cluster of all tests of this package. The tests run one after another.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(cluster.Main(m, 15*time.Minute, func(ctx context.Context) (c *cluster.Cluster, err error) {
		shared, err = cluster.Start(ctx, cluster.Options{Pods: podsim.New(pods, 1), Logf: cluster.LogToStderr})
		return shared, err
	}))
}

// each runs a test twice, with controller-runtime's own informers and with Weir's. Each run has its
// own namespace.
func each(t *testing.T, test func(*stage)) {
	for _, tc := range []struct {
		name     string
		newCache cache.NewCacheFunc
		leaks    []goleak.Option
	}{
		// controller-runtime's metadata informers leak a goroutine if a watch ends during the delivery of
		// an event.
		{"controller-runtime", cache.New, []goleak.Option{goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop")}},
		{"weir", ours.NewCache(), nil},
	} {
		t.Run(tc.name, func(t *testing.T) { test(newStage(t, tc.newCache, tc.leaks)) })
	}
}

type stage struct {
	t         *testing.T
	ctx       context.Context
	newCache  cache.NewCacheFunc
	namespace string
	direct    client.Client // has no cache
}

func newStage(t *testing.T, newCache cache.NewCacheFunc, leaks []goleak.Option) *stage {
	t.Helper()
	s := &stage{t: t, ctx: shared.Begin(t, deadline, leaks...), newCache: newCache}
	var err error
	if s.direct, err = client.New(s.config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "controllers-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	return s
}

// config returns a client configuration whose connections are closed when the test ends. A manager
// needs this because its leader election does not close connections. Also, the manager writes
// events for a while after it has stopped.
func (s *stage) config() *rest.Config {
	dialer := connrotation.NewDialer((&net.Dialer{}).DialContext)
	var over atomic.Bool
	s.t.Cleanup(func() {
		over.Store(true)
		dialer.CloseAll()
	})
	cfg := shared.Config()
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil && over.Load() {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		return conn, err
	}
	return cfg
}

func (s *stage) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		check.NoError(s.t, s.direct.Create(s.ctx, o))
	}
}

func (s *stage) pod(name, app string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{appLabel: app}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
}
