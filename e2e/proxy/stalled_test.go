package proxy

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// stall delays all data that its connections receive, from the call of begin to the call of end. It
// simulates a network that loses packets.
type stall struct {
	mu   sync.Mutex
	open chan struct{} // closed unless data is delayed
}

func newStall() *stall {
	s := &stall{open: make(chan struct{})}
	close(s.open)
	return s
}

func (s *stall) gate() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = make(chan struct{})
}

func (s *stall) end() { close(s.gate()) }

// config returns a client configuration for the shared cluster, whose connections use the stall.
// When the test ends, it closes all connections, because some may not be idle when the proxy is
// closed.
func (s *stall) config(t *testing.T) *rest.Config {
	cfg := shared.Config()
	dialer := connrotation.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stalledConn{Conn: conn, stall: s, closed: make(chan struct{})}, nil
	})
	t.Cleanup(dialer.CloseAll)
	cfg.Dial = dialer.DialContext
	return cfg
}

type stalledConn struct {
	net.Conn
	stall  *stall
	once   sync.Once
	closed chan struct{}
}

func (c *stalledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.stall.gate():
	case <-c.closed:
	}
	return n, err
}

func (c *stalledConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func number(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	check.NoError(t, err)
	return rv
}

// stalledReplica contains the server and the clients of a replica whose upstream connections can
// stall. It also contains a client of a replica that stays current, and a client of the upstream.
type stalledReplica struct {
	t        *testing.T
	ctx      context.Context
	upstream *stall
	server   *proxy.Server
	client   *kubernetes.Clientset // client of the stalled replica
	pods     typedcorev1.PodInterface
	current  typedcorev1.PodInterface
	direct   typedcorev1.PodInterface
}

func newStalledReplica(t *testing.T, ctx context.Context) *stalledReplica {
	t.Helper()
	granted(t, ctx, "reader", readPods)
	s := &stalledReplica{t: t, ctx: ctx, upstream: newStall()}
	// The proxy must not ask the upstream about callers during the stall.
	known := proxy.Authentication{TokenTTL: deadline, AllowTTL: deadline, DenyTTL: deadline}
	options := proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}, Authentication: known}
	s.current = clientFor(t, as(t, start(t, ctx, options), "reader")).CoreV1().Pods("default")
	options.Upstream = s.upstream.config(t)
	s.server = start(t, ctx, options)
	s.client = clientFor(t, as(t, s.server, "reader"))
	s.pods = s.client.CoreV1().Pods("default")
	s.direct = clientFor(t, shared.Config()).CoreV1().Pods("default")
	return s
}

// askOnce sends each kind of read once before the stall. The replica then caches the caller's
// permissions for them.
func (s *stalledReplica) askOnce(at *corev1.Pod) {
	s.t.Helper()
	if _, err := s.pods.Get(s.ctx, at.Name, metav1.GetOptions{ResourceVersion: at.ResourceVersion}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.pods.List(s.ctx, metav1.ListOptions{ResourceVersion: at.ResourceVersion}); err != nil {
		s.t.Fatal(err)
	}
	w, err := s.pods.Watch(s.ctx, metav1.ListOptions{ResourceVersion: at.ResourceVersion})
	check.NoError(s.t, err)
	w.Stop()
}

// refuses sends a read that the stalled replica cannot answer. It checks that the replica returns
// kube-apiserver's error for a resourceVersion that is too large, and that the error contains a
// time after which to retry. name is the name of a pod, or empty for a LIST.
func (s *stalledReplica) refuses(name string, options runtime.Object) {
	err := s.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods", name).
		VersionedParams(options, scheme.ParameterCodec).MaxRetries(0).Do(s.ctx).Error()
	if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		s.t.Errorf("%+v: %v", options, err)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds <= 0 {
		s.t.Errorf("%+v: no time to come again in %v", options, err)
	}
}

// showsNoOlder checks that a LIST at resourceVersion "0" is not older than resourceVersion, which
// the replica has returned before.
func (s *stalledReplica) showsNoOlder(resourceVersion string) {
	s.t.Helper()
	list, err := s.pods.List(s.ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || number(s.t, list.ResourceVersion) < number(s.t, resourceVersion) {
		s.t.Errorf("at %q, after %s: %v", list.ResourceVersion, resourceVersion, err)
	}
}

// TestStalledReplica moves a client from a current replica to one that receives nothing more from
// the upstream. The client's requests have a resourceVersion that the client has seen. The replica
// must answer after it has reached that resourceVersion, or return kube-apiserver's error. It must
// never return an older state.
func TestStalledReplica(t *testing.T) {
	ctx := begin(t)
	s := newStalledReplica(t, ctx)
	for _, name := range []string{"stall-a", "stall-b", "stall-c"} {
		if _, err := s.direct.Create(ctx, newPod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := s.direct.Get(ctx, "stall-b", metav1.GetOptions{})
	check.NoError(t, err)
	s.askOnce(before)

	s.upstream.begin()
	changed := before.DeepCopy()
	changed.Labels["moved"] = "yes"
	if changed, err = s.direct.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen, err := s.current.List(ctx, metav1.ListOptions{ResourceVersion: changed.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, Limit: 2})
	if err != nil || seen.Continue == "" {
		t.Fatalf("%q, %v", seen.Continue, err)
	}
	var asked sync.WaitGroup // the requests run together, because each waits
	asked.Go(func() { s.refuses("", &metav1.ListOptions{ResourceVersion: seen.ResourceVersion}) })
	asked.Go(func() { s.refuses("", &metav1.ListOptions{Limit: 2, Continue: seen.Continue}) })
	asked.Go(func() { s.refuses("stall-b", &metav1.GetOptions{ResourceVersion: changed.ResourceVersion}) })
	w, err := s.pods.Watch(ctx, metav1.ListOptions{ResourceVersion: seen.ResourceVersion})
	check.NoError(t, err)
	defer w.Stop()
	asked.Wait()
	// The client can still read the cache. readyz fails because the resource is behind.
	s.showsNoOlder(before.ResourceVersion)
	testenv.Eventually(t, ctx, "/readyz says so", func() bool { return readyz(t, ctx, s.server) == http.StatusServiceUnavailable })

	var waits sync.WaitGroup
	waits.Go(func() { // a waiting read is answered when the event arrives
		got, err := s.pods.Get(ctx, "stall-b", metav1.GetOptions{ResourceVersion: changed.ResourceVersion})
		if err != nil || got.ResourceVersion != changed.ResourceVersion {
			t.Errorf("%v, %v", got, err)
		}
	})
	// Usually the event arrives while the read waits. If it arrives earlier, the read does not wait.
	time.AfterFunc(100*time.Millisecond, s.upstream.end)
	waits.Wait()
	s.goesOn(w, seen)
}

// goesOn checks the replica after the stall. The replica must return the rest of a list whose first
// page the current replica returned. A watch from the resourceVersion of that list must receive the
// next change first.
func (s *stalledReplica) goesOn(w watch.Interface, seen *corev1.PodList) {
	s.t.Helper()
	next, err := s.pods.List(s.ctx, metav1.ListOptions{Limit: 2, Continue: seen.Continue})
	if err != nil || next.ResourceVersion != seen.ResourceVersion {
		s.t.Errorf("the next page is of %q instead of %s: %v", next.ResourceVersion, seen.ResourceVersion, err)
	}
	if _, err := s.direct.Create(s.ctx, newPod("stall-d"), metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	select {
	case e := <-w.ResultChan():
		if p, ok := e.Object.(*corev1.Pod); !ok || p.Name != "stall-d" {
			s.t.Errorf("%s %v: it was seen before", e.Type, e.Object)
		}
	case <-s.ctx.Done():
		s.t.Error("the watch does not go on")
	}
	s.showsNoOlder(seen.ResourceVersion)
}

// TestPagesOfReplicas checks that the pages of a list can come from different replicas. A replica
// that was started later does not have the state of the first page. It must answer 410 with a token
// that continues with the current state.
func TestPagesOfReplicas(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "reader", readPods)
	options := proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}}
	replicas := []*kubernetes.Clientset{clientFor(t, as(t, start(t, ctx, options), "reader")), clientFor(t, as(t, start(t, ctx, options), "reader"))}
	direct := clientFor(t, shared.Config()).CoreV1().Pods("default")
	if _, err := direct.Create(ctx, newPod("paged"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := metav1.ListOptions{Limit: pods / 4}
	names, of, later := map[string]bool{}, "", ""
	for page := 0; ; page++ {
		got, err := replicas[page%2].CoreV1().Pods("").List(ctx, list)
		if err != nil {
			t.Fatalf("page %d: %v", page, err)
		}
		if of == "" {
			of = got.ResourceVersion
		}
		check.Equal(t, got.ResourceVersion, of, "page %d is of", page)
		for i := range got.Items {
			names[got.Items[i].Namespace+"/"+got.Items[i].Name] = true
		}
		if page == 0 { // this deletion must not change the pages
			check.NoError(t, direct.Delete(ctx, "paged", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		}
		if later = list.Continue; got.Continue == "" {
			break
		}
		list.Continue = got.Continue
	}
	if !names["default/paged"] || len(names) < pods {
		t.Errorf("%d pods, the one that has gone since: %v", len(names), names["default/paged"])
	}
	young := clientFor(t, as(t, start(t, ctx, options), "reader")).CoreV1().Pods("")
	_, err := young.List(ctx, metav1.ListOptions{Continue: later})
	status, ok := err.(apierrors.APIStatus)
	if !apierrors.IsResourceExpired(err) || !ok || status.Status().ListMeta.Continue == "" {
		t.Fatalf("%v", err)
	}
	if rest, err := young.List(ctx, metav1.ListOptions{Continue: status.Status().ListMeta.Continue}); err != nil || len(rest.Items) == 0 {
		t.Errorf("%v", err)
	}
}
