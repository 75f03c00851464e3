package proxy

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy"
)

var currentReads = flag.Int("current.reads", 100, "how many writes TestCurrentReads looks for")

// cutter opens connections and can close them. It is safe for concurrent use.
type cutter struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// dial opens a connection. It implements rest.Config.Dial.
func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		c.conns = map[net.Conn]struct{}{}
	}
	c.conns[conn] = struct{}{}
	return conn, nil
}

// cut closes one of the open connections.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conn.Close()
		delete(c.conns, conn)
		return
	}
}

// cutAll closes all connections.
func (c *cutter) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// TestCurrentReads checks that reads from two replicas are current. Each LIST without a
// resourceVersion, and the initial events of each WATCH, must contain a write that kube-apiserver
// has confirmed before the read. Meanwhile the test cuts the replicas' upstream connections again
// and again. The replicas must answer at least half of the reads themselves.
func TestCurrentReads(t *testing.T) {
	ctx := begin(t)
	if *currentReads > 1000 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(context.Background())
		defer cancel()
	}
	granted(t, ctx, "reader", readPods)
	var line cutter
	// When a client is closed, it closes its idle connections. An HTTP/2 connection whose last stream
	// ends meanwhile stays open.
	t.Cleanup(line.cutAll)
	var replicas []*kubernetes.Clientset
	var servers []*proxy.Server
	for range 2 {
		upstream := rest.CopyConfig(shared.Config())
		upstream.Dial = line.dial
		s := start(t, ctx, proxy.Options{Upstream: upstream, Resources: []string{"pods"}})
		servers = append(servers, s)
		cfg := as(t, s, "reader")
		cfg.QPS = -1
		replicas = append(replicas, clientFor(t, cfg))
	}
	upstream := rest.CopyConfig(shared.Config())
	upstream.QPS = -1
	direct := clientFor(t, upstream)

	writers := min(max(16, *currentReads/50), 400)
	var next, done atomic.Int64
	stop, cut := context.WithCancel(ctx)
	var all, cuts sync.WaitGroup
	cuts.Go(func() {
		for pauseFor(stop, time.Duration(rand.IntN(1500))*time.Millisecond) {
			line.cut()
		}
	})
	for w := range writers {
		all.Go(func() {
			name := fmt.Sprintf("current-%d", w)
			if _, err := direct.CoreV1().Pods("default").Create(ctx, newPod(name), metav1.CreateOptions{}); err != nil {
				t.Error(err)
				return
			}
			defer direct.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			for n := next.Add(1); n <= int64(*currentReads) && !t.Failed(); n = next.Add(1) {
				if n%100 == 0 { // for a while, only the pods of other writers change
					pauseFor(ctx, time.Second)
				}
				if !readsWrite(t, ctx, direct, replicas, name, n) {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	cut()
	cuts.Wait()
	served := 0
	for _, s := range servers {
		served += servedPods(t, ctx, s)
	}
	t.Logf("%d reads, %d of them answered by the replicas", done.Load(), served)
	if done.Load() < int64(*currentReads) || served < int(done.Load())/2 {
		t.Errorf("%d of %d reads, %d of them answered by the replicas", done.Load(), *currentReads, served)
	}
}

// readsWrite changes a pod through kube-apiserver, and checks that a read that follows has the
// change. It returns false if the write fails or no read is answered.
func readsWrite(t *testing.T, ctx context.Context, direct *kubernetes.Clientset, replicas []*kubernetes.Clientset, name string, n int64) bool {
	mark := strconv.FormatInt(n, 10)
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"mark":"n%s"}}}`, mark)
	if _, err := direct.CoreV1().Pods("default").Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Error(err)
		return false
	}
	found, err := answeredRead(t, ctx, replicas, "mark=n"+mark, n%2 == 0)
	if err != nil {
		t.Errorf("no read after %s is answered: %v", mark, err)
		return false
	}
	check.Equal(t, found, name, "%s wrote %s, and a read after that has", name, mark)
	return true
}

// maxCuts bounds the attempts of a read, because its connection may be cut.
const maxCuts = 10

// answeredRead sends a consistent read of one pod to random replicas until one of them answers. No
// client writes the pod meanwhile, so each attempt must have the same result.
func answeredRead(t *testing.T, ctx context.Context, replicas []*kubernetes.Clientset, selector string, watches bool) (name string, err error) {
	for range maxCuts {
		if name, err = readsCurrent(ctx, replicas[rand.IntN(len(replicas))], selector, watches); err == nil {
			return name, nil
		}
		t.Logf("not answered: %v", err) // the connection may have been cut
	}
	return "", err
}

// readsCurrent sends a consistent LIST or WATCH, and returns the name of the only pod in the
// answer. If the answer does not have exactly one pod, the name is empty or wrong.
func readsCurrent(ctx context.Context, client *kubernetes.Clientset, selector string, watches bool) (name string, err error) {
	pods := client.CoreV1().Pods("")
	if !watches {
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(list.Items) != 1 {
			return "", err
		}
		return list.Items[0].Name, nil
	}
	sends := true
	w, err := pods.Watch(ctx, metav1.ListOptions{
		LabelSelector: selector, SendInitialEvents: &sends, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		object, ok := e.Object.(metav1.Object)
		switch {
		case !ok || e.Type == watch.Error:
			return "", fmt.Errorf("%s %v", e.Type, e.Object)
		case e.Type == watch.Bookmark:
			return name, nil
		}
		name = object.GetName()
	}
	return "", fmt.Errorf("the watch ended before its initial events")
}

// servedPods returns the number of reads of pods that a proxy has answered from its cache.
func servedPods(t *testing.T, ctx context.Context, s *proxy.Server) (n int) {
	t.Helper()
	raw, err := clientFor(t, through(t, s, shared.Config())).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	check.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, `weir_proxy_served_total{group="",resource="pods"`) {
			served, _ := strconv.Atoi(value)
			n += served
		}
	}
	return n
}

// pauseFor waits for d. It returns false if ctx ends first.
func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// ageNoter is a transport that records whether the proxy answered the last request from its cache.
// Such a response has an Age header.
type ageNoter struct {
	http.RoundTripper
	own bool
}

// WrappedRoundTripper returns the inner transport. client-go needs it to close idle connections.
func (n *ageNoter) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

func (n *ageNoter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	n.own = err == nil && resp.Header.Get("Age") != ""
	return resp, err
}

// TestPagesElsewhere checks that kube-apiserver accepts a continue token of the proxy, and returns
// the rest of the list. It does this for all namespaces, for one namespace, and for a
// cluster-scoped resource.
func TestPagesElsewhere(t *testing.T) {
	ctx := begin(t)
	direct := dynamicFor(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods", "clusterroles.rbac.authorization.k8s.io"}})
	cfg := through(t, s, shared.Config())
	noter := &ageNoter{}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { noter.RoundTripper = rt; return noter })
	client, err := dynamic.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	all, err := direct.Resource(podResource).List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	for what, of := range map[string]func(dynamic.Interface) dynamic.ResourceInterface{
		"all namespaces": func(c dynamic.Interface) dynamic.ResourceInterface { return c.Resource(podResource) },
		"one namespace": func(c dynamic.Interface) dynamic.ResourceInterface { // a large namespace
			return c.Resource(podResource).Namespace(all.Items[len(all.Items)/2].GetNamespace())
		},
		"no namespaces": func(c dynamic.Interface) dynamic.ResourceInterface { return c.Resource(roles) },
	} {
		whole, err := of(direct).List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		// The proxy answers a page of any size if its cache has reached the requested resourceVersion.
		limit := int64(len(whole.Items)/2 + 1)
		now, err := of(client).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		check.NoError(t, err)
		first, err := of(client).List(ctx, metav1.ListOptions{Limit: limit, ResourceVersion: now.GetResourceVersion()})
		check.NoError(t, err)
		if !noter.own || first.GetContinue() == "" {
			t.Fatalf("%s: the first page is the proxy's: %t, and there are more: %q", what, noter.own, first.GetContinue())
		}
		rest, err := of(direct).List(ctx, metav1.ListOptions{Limit: limit, Continue: first.GetContinue()})
		if err != nil {
			t.Errorf("%s: the second page from kube-apiserver: %v", what, err)
			continue
		}
		if got, want := namesOf(first, rest), namesOf(whole); !slices.Equal(got, want) {
			t.Errorf("%s: %d objects of two pages, want %d, or others", what, len(got), len(want))
		}
		if first.GetResourceVersion() != rest.GetResourceVersion() {
			t.Errorf("%s: pages of %s and %s", what, first.GetResourceVersion(), rest.GetResourceVersion())
		}
	}
}

// namesOf returns the namespaces and names of the objects in lists.
func namesOf(lists ...*unstructured.UnstructuredList) (names []string) {
	for _, l := range lists {
		for i := range l.Items {
			names = append(names, l.Items[i].GetNamespace()+"/"+l.Items[i].GetName())
		}
	}
	return names
}
