package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var (
	rollingWatchers = flag.Int("rolling.watchers", 48, "how many informers TestRollingRestart has")
	rollingDelay    = flag.Duration("rolling.delay", 4*time.Second, "the proxy's --shutdown-delay in TestRollingRestart")
)

// rollingNamespace is the namespace of the objects of TestRollingRestart.
const rollingNamespace = "rolling"

// replica is a process that runs the program weir-proxy. It can be restarted at the same address.
type replica struct {
	path, addr, dir string
	program         *cluster.Program
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	args := []string{
		"--kubeconfig=" + filepath.Join(r.dir, "upstream"), "--listen=" + r.addr, "--cert-dir=" + filepath.Join(r.dir, "certs"),
		"--write-kubeconfig=" + r.kubeconfig(), "--resources=configmaps,pods", "--shutdown-delay=" + rollingDelay.String(),
		"--goaway-chance=0.02",
	}
	var err error
	if r.program, err = cluster.StartProgram(r.path, args, nil, filepath.Join(r.dir, "log-"+r.port())); err != nil {
		t.Fatal(err)
	}
}

func (r *replica) port() string {
	_, port, _ := net.SplitHostPort(r.addr)
	return port
}

func (r *replica) kubeconfig() string { return filepath.Join(r.dir, "kubeconfig-"+r.port()) }

// startReplicas builds weir-proxy and starts two replicas with the same serving certificate. cfg is
// a client configuration for one replica. It can also verify the certificate of the other one.
func startReplicas(t *testing.T, ctx context.Context) (replicas []*replica, cfg *rest.Config) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "weir-proxy")
	if _, err := cluster.GoCommand(ctx, "", "build", "-o", path, "github.com/weirproject/weir/proxy/cmd/weir-proxy"); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, shared.WriteKubeconfig(filepath.Join(dir, "upstream")))
	for range 2 {
		addr, err := cluster.FreeAddress()
		check.NoError(t, err)
		r := &replica{path: path, addr: addr, dir: dir}
		r.start(t)
		replicas = append(replicas, r)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the replica at %s ended with:\n%s", r.addr, r.program.LastLines())
			}
			r.program.Stop()
		})
		testenv.Eventually(t, ctx, "the replica has written its kubeconfig", func() bool {
			check.NoError(t, r.program.Err())
			var err error
			cfg, err = clientcmd.BuildConfigFromFlags("", r.kubeconfig())
			return err == nil
		})
	}
	cfg.QPS = -1
	return replicas, cfg
}

// reads counts the requests of informers: LISTs and WATCHes that read the whole state, and WATCHes
// from a resourceVersion.
type reads struct{ states, watches atomic.Int64 }

type countedReads struct {
	http.RoundTripper
	in *reads
}

func (c countedReads) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if q.Get("watch") == "true" && q.Get("sendInitialEvents") != "true" && q.Get("resourceVersion") != "0" {
		c.in.watches.Add(1)
	} else {
		c.in.states.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

func (c countedReads) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

// alone returns a copy of cfg whose clients do not share connections with other clients.
func alone(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Dial = (&net.Dialer{}).DialContext
	return cfg
}

// startInformers starts n of client-go's informers, each with its own client, and waits until they
// have synced. Half of them are of ConfigMaps, which change all the time. A quarter is of pods,
// which do not change, and a quarter of Secrets, whose requests the proxy forwards.
func startInformers(t *testing.T, ctx context.Context, cfg *rest.Config, n int) (of []cache.SharedIndexInformer, count *reads) {
	t.Helper()
	count = &reads{}
	ctx, cancel := context.WithCancel(ctx)
	var factories []informers.SharedInformerFactory
	t.Cleanup(func() {
		cancel()
		for _, f := range factories {
			f.Shutdown()
		}
	})
	for i := range n {
		cfg := alone(cfg)
		if i%2 == 0 {
			cfg.ContentType = "application/vnd.kubernetes.protobuf"
		}
		cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return countedReads{rt, count} })
		f := informers.NewSharedInformerFactoryWithOptions(clientFor(t, cfg), 0, informers.WithNamespace(rollingNamespace))
		switch i % 4 {
		case 0, 1:
			of = append(of, f.Core().V1().ConfigMaps().Informer())
		case 2:
			of = append(of, f.Core().V1().Pods().Informer())
		case 3:
			of = append(of, f.Core().V1().Secrets().Informer())
		}
		factories = append(factories, f)
		f.StartWithContext(ctx)
	}
	for _, inf := range of {
		if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
			t.Fatal("an informer has not synced")
		}
	}
	return of, count
}

// users are clients that send one request after another until stop. They record requests that fail.
// They use only net/http, which does not repeat a request that the server may have received.
type users struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	answered int
	failures []string
	written  []string // names of ConfigMaps whose creation succeeded
}

// asking returns the nth request of a client. creates is the name of the object that the request
// creates, or empty.
type asking func(ctx context.Context, n int) (req *http.Request, creates string, err error)

func (u *users) run(ctx context.Context, client *http.Client, what string, make asking) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		u.once(client, what, n, make)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (u *users) once(client *http.Client, what string, n int, make asking) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, creates, err := make(ctx, n)
	code := ""
	if err == nil {
		var resp *http.Response
		if resp, err = client.Do(req); err == nil {
			code = resp.Status
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil || !strings.HasPrefix(code, "2") {
		u.failures = append(u.failures, fmt.Sprintf("%s, request %d: %s %v", what, n, code, err))
		return
	}
	u.answered++
	if creates != "" {
		u.written = append(u.written, creates)
	}
}

// startUsers starts readers and writers over HTTP/1.1 and HTTP/2. Some readers open a new
// connection for each request.
func startUsers(t *testing.T, ctx context.Context, cfg *rest.Config) *users {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	u := &users{stop: cancel}
	t.Cleanup(func() {
		cancel()
		u.running.Wait()
	})
	collection := cfg.Host + "/api/v1/namespaces/" + rollingNamespace + "/configmaps"
	read := func(query string, alone bool) asking {
		return func(ctx context.Context, _ int) (*http.Request, string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, collection+query, nil)
			if err == nil {
				req.Close = alone
			}
			return req, "", err
		}
	}
	write := func(prefix string) asking {
		return func(ctx context.Context, n int) (*http.Request, string, error) {
			name := fmt.Sprintf("%s-%d", prefix, n)
			body, err := json.Marshal(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: rollingNamespace}})
			if err != nil {
				return nil, "", err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, collection, bytes.NewReader(body))
			if err == nil {
				req.Header.Set("Content-Type", "application/json")
			}
			return req, name, err
		}
	}
	old := rest.CopyConfig(cfg)
	old.NextProtos = []string{"http/1.1"}
	for protocol, cfg := range map[string]*rest.Config{"h2": cfg, "http1": old} {
		for what, r := range map[string]asking{
			"reads":       read("?resourceVersion=0&limit=1", false),
			"reads alone": read("?resourceVersion=0&limit=1", true), "passed reads": read("?limit=1", false), "writes": write(protocol),
		} {
			client := cluster.HTTPClient(t, alone(cfg))
			u.running.Go(func() { u.run(ctx, client, what+" by "+protocol, r) })
		}
	}
	return u
}

// TestRollingRestart restarts two replicas behind a load balancer, one after the other, while
// informers, readers and writers run. It checks that no informer lists again, that no write is
// lost, and that every request succeeds.
func TestRollingRestart(t *testing.T) {
	ctx := begin(t)
	direct := clientFor(t, shared.Config())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rollingNamespace}}
	if _, err := direct.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	replicas, cfg := startReplicas(t, ctx)
	b := startBalancer(t, ctx, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: cfg.CAData}}, replicas[0].addr, replicas[1].addr)
	cfg.Host = "https://" + b.Addr().String()
	bothReady := func() bool { return b.isReady(0) && b.isReady(1) }
	testenv.Eventually(t, ctx, "both replicas are ready", bothReady)
	users := startUsers(t, ctx, cfg)
	informers, count := startInformers(t, ctx, cfg, *rollingWatchers)
	states, watches := count.states.Load(), count.watches.Load()

	watchers := 0
	for i, r := range replicas {
		watchers = r.metric(t, ctx, cfg, "weir_proxy_watchers{")
		check.NoError(t, r.program.Terminate(ctx))
		testenv.Eventually(t, ctx, "the balancer has seen it go", func() bool { return !b.isReady(i) })
		r.start(t)
		testenv.Eventually(t, ctx, "both replicas are ready", bothReady)
	}

	users.stop()
	users.running.Wait()
	checkWritten(t, ctx, direct, users, informers)
	check.Equal(t, count.states.Load()-states, 0, "informers listed again")
	for i, failure := range users.failures {
		if i == 10 {
			t.Errorf("… and %d more", len(users.failures)-i)
			break
		}
		t.Error(failure)
	}
	if b.refused > 0 {
		t.Errorf("%d connections were refused", b.refused)
	}
	// All watches were at the second replica when it was restarted. The first replica must now serve
	// each watch that the second replica had served from its cache. Pods do not change, so a watch of
	// pods resumes from its last bookmark, which must be new enough for the first replica.
	if n := replicas[0].metric(t, ctx, cfg, `weir_proxy_served_total{`, `verb="watch"`); n < watchers || watchers == 0 {
		t.Errorf("%d watches of the cache went on from there, of %d", n, watchers)
	}
	t.Logf("%d informers started %d watches again and %d lists; of %d requests %d were not answered; %d writes",
		len(informers), count.watches.Load()-watches, count.states.Load()-states, users.answered+len(users.failures), len(users.failures), len(users.written))
}

// metric returns the sum of a replica's metrics that have all the labels. The parameter begins is
// the text with which these metrics must start.
func (r *replica) metric(t *testing.T, ctx context.Context, cfg *rest.Config, begins string, labels ...string) (n int) {
	t.Helper()
	resp := do(t, ctx, cfg, http.MethodGet, "https://"+r.addr+"/metrics")
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, begins) || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(name, l) }) {
			continue
		}
		more, err := strconv.Atoi(value)
		check.NoError(t, err)
		n += more
	}
	return n
}

// checkWritten checks that the API server, and each informer of ConfigMaps, has every ConfigMap
// whose creation succeeded.
func checkWritten(t *testing.T, ctx context.Context, direct kubernetes.Interface, u *users, informers []cache.SharedIndexInformer) {
	t.Helper()
	list, err := direct.CoreV1().ConfigMaps(rollingNamespace).List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Name] = true
	}
	for _, name := range u.written {
		if !there[name] {
			t.Errorf("%s was written, and is not there", name)
		}
	}
	for i, inf := range informers {
		if i%4 < 2 {
			testenv.Eventually(t, ctx, "an informer has everything", func() bool { return len(inf.GetStore().ListKeys()) == len(list.Items) })
		}
	}
}
