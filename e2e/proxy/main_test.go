package proxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// pods is the number of pods in the shared cluster.
const pods = 1000

// deadline bounds every wait of these tests. It is long because no test measures time.
const deadline = 2 * time.Minute

var (
	// shared is the cluster of all tests of this package. The tests run one after another, because
	// some of them kill its API server.
	shared *cluster.Cluster
	// clients are kubectl and the programs of the control plane. They are built before the tests,
	// because a build may take longer than deadline.
	clients cluster.Clients
	// callers signs the client certificates that the API server accepts. The proxy therefore accepts
	// them too. fronts signs the certificates of front proxies.
	callers, fronts *testenv.Authority
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-proxy-e2e-")
	if err != nil {
		cluster.LogToStderr("%v", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return cluster.Main(m, 20*time.Minute, func(ctx context.Context) (*cluster.Cluster, error) {
		if err := startShared(ctx, dir); err != nil {
			return shared, err
		}
		return shared, shared.LoadPods(ctx, podsim.New(pods, 1))
	})
}

// startShared starts the shared cluster, and creates the authorities and programs that the tests
// need.
func startShared(ctx context.Context, dir string) (err error) {
	if callers, err = testenv.NewAuthority(filepath.Join(dir, "callers.crt")); err != nil {
		return err
	}
	if fronts, err = testenv.NewAuthority(filepath.Join(dir, "fronts.crt")); err != nil {
		return err
	}
	if clients, err = cluster.BuildClients(ctx, cluster.LogToStderr); err != nil {
		return err
	}
	shared, err = cluster.Start(ctx, cluster.Options{
		Authorization: cluster.RBAC,
		Users:         []cluster.User{{Name: "stranger"}, {Name: "reader"}, {Name: "leaver"}},
		APIServerArgs: []string{
			// This feature gate is alpha. The tests compare how the proxy and kube-apiserver handle
			// shardSelector.
			"--feature-gates=ShardedListAndWatch=true",
			"--client-ca-file=" + callers.File,
			"--requestheader-client-ca-file=" + fronts.File,
			"--requestheader-allowed-names=front",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		},
		Logf: cluster.LogToStderr,
	})
	return err
}

// begin returns the context of a test, which ends after deadline. At the end of the test, it checks
// that no goroutine leaks.
func begin(t *testing.T) context.Context {
	t.Helper()
	return shared.Begin(t, deadline)
}

// start starts a proxy, and waits until it is ready. If the options have no upstream, the upstream
// is the shared cluster.
func start(t *testing.T, ctx context.Context, o proxy.Options) *proxy.Server {
	t.Helper()
	if o.Upstream == nil {
		o.Upstream = shared.Config()
	}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := proxy.New(ctx, o)
	check.NoError(t, err)
	check.NoError(t, s.Start())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	testenv.Eventually(t, ctx, "the proxy is ready", func() bool { return readyz(t, ctx, s) == http.StatusOK })
	return s
}

// readyz returns the status code of /readyz. It also returns 503 if a resource is behind the
// upstream, although /readyz itself then answers 200.
func readyz(t *testing.T, ctx context.Context, s *proxy.Server) int {
	t.Helper()
	resp := do(t, ctx, through(t, s, nil), http.MethodGet, s.URL()+"/readyz?verbose")
	body, err := io.ReadAll(resp.Body)
	check.NoError(t, err)
	if strings.Contains(string(body), ", but behind") {
		return http.StatusServiceUnavailable
	}
	return resp.StatusCode
}

// through returns a client configuration for the proxy with the credentials of cfg. If cfg is nil,
// the configuration has no credentials.
func through(t *testing.T, s *proxy.Server, cfg *rest.Config) *rest.Config {
	t.Helper()
	out := &rest.Config{Host: s.URL(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.CAData()}}
	if cfg != nil {
		out.BearerToken, out.CertData, out.KeyData, out.Impersonate = cfg.BearerToken, cfg.CertData, cfg.KeyData, cfg.Impersonate
	}
	return out
}

// as returns a client configuration for the proxy with the token of a user of the shared cluster.
func as(t *testing.T, s *proxy.Server, user string) *rest.Config {
	t.Helper()
	cfg, err := shared.ConfigFor(user)
	check.NoError(t, err)
	return through(t, s, cfg)
}

// clientFor returns a client whose idle connections are closed when the test ends.
func clientFor(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	set, err := kubernetes.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	return set
}

// do sends a request. The response's body is closed when the test ends.
func do(t *testing.T, ctx context.Context, cfg *rest.Config, method, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	check.NoError(t, err)
	resp, err := cluster.HTTPClient(t, cfg).Do(req)
	check.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// granted gives a user the permission of rule. revoke withdraws the permission. If the test does
// not call revoke, the permission is withdrawn when the test ends.
func granted(t *testing.T, ctx context.Context, user string, rule rbacv1.PolicyRule) (revoke func()) {
	t.Helper()
	client := clientFor(t, shared.Config())
	name := fmt.Sprintf("test-%s-%d", user, time.Now().UnixNano())
	meta := metav1.ObjectMeta{Name: name}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	revoke = func() {
		once.Do(func() {
			ctx := context.WithoutCancel(ctx)
			if err := client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if err := client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(revoke)
	return revoke
}

var readPods = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}
