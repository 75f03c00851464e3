package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// kubectl runs the kubectl program with one kubeconfig.
type kubectl struct {
	path, kubeconfig, home string
}

// said is the output and the exit code of kubectl.
type said struct {
	out, err string
	code     int
}

func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.path, append([]string{"--kubeconfig=" + k.kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+k.home) // kubectl caches discovery there
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (k *kubectl) run(t *testing.T, ctx context.Context, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := k.command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return said{out: steady(out.String()), err: steady(errs.String()), code: cmd.ProcessState.ExitCode()}
}

// ages matches ages of objects, which depend on the time of the request.
var ages = regexp.MustCompile(`\b(\d+d)?(\d+h)?(\d+m)?\d+s\b|\b\d+m\b`)

// steady makes the output of two runs comparable: it replaces ages, and the padding after them.
func steady(s string) string {
	s = ages.ReplaceAllString(s, "AGE")
	return regexp.MustCompile(` {2,}`).ReplaceAllString(s, "  ")
}

func newKubectl(t *testing.T, path, kubeconfig string) *kubectl {
	return &kubectl{path: path, kubeconfig: kubeconfig, home: t.TempDir()}
}

// kubectls returns two kubectls with an admin's credentials. One uses the proxy, and the other uses
// kube-apiserver directly.
func kubectls(t *testing.T, s *proxy.Server) (proxied, direct *kubectl) {
	t.Helper()
	return newKubectl(t, clients.Kubectl, kubeconfig(t, through(t, s, shared.Config()))),
		newKubectl(t, clients.Kubectl, kubeconfig(t, shared.Config()))
}

const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: applied, namespace: default, labels: {made: by-kubectl}}
data: {key: %s}
---
apiVersion: v1
kind: Pod
metadata: {name: applied, namespace: default, labels: {made: by-kubectl}}
spec:
  automountServiceAccountToken: false
  containers: [{name: c, image: i}]
`

// TestKubectl checks that kubectl prints the same with the proxy as with kube-apiserver. It also
// checks that the proxy answered some of the requests from its cache.
func TestKubectl(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "reader", readPods)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods", "configmaps"}, TrustCache: []string{"pods"}})
	proxied, direct := kubectls(t, s)
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	for _, round := range []struct{ value, want string }{{"one", "created"}, {"two", "configured"}} {
		check.NoError(t, os.WriteFile(file, fmt.Appendf(nil, manifest, round.value), 0o600))
		got := proxied.run(t, ctx, "apply", "-f", file)
		if got.code != 0 || !strings.Contains(got.out, "configmap/applied "+round.want) {
			t.Fatalf("apply: %+v", got)
		}
	}
	for _, args := range []string{
		"get pods -l made=by-kubectl",
		"get pods -l made=by-kubectl -o wide --show-labels",
		"get pods,configmaps -n default -l made=by-kubectl",
		"get pods -A -l made=by-kubectl -o name",
		"get pod applied -o json",
		"get pod applied -o yaml --show-managed-fields",
		"get pods -l made=by-kubectl -o json",
		"get pods -A --field-selector spec.nodeName=none",
		"get pods -A --chunk-size=300 -o name",
		"get pods -l made=by-kubectl -o jsonpath={.items[*].spec.containers[0].image}",
		"get pod missing",
		"get nonsense",
		"get pods --field-selector spec.nonsense=1",
		"describe pod applied",
		"describe configmap applied",
		"logs applied",
		"logs applied -c none",
		"exec applied -- true",
		"port-forward applied 12345:80",
		"get pods --as=reader -l made=by-kubectl",
		"get configmaps --as=reader",
		"delete pod applied --as=reader",
		"auth whoami --as=reader",
		"auth can-i list pods --as=reader",
		"api-resources --api-group=apps",
		"explain pod.spec.nodeName",
		"get --raw /api/v1/namespaces/default/configmaps/applied",
		"diff -f " + file,
		"version -o json",
	} {
		t.Run(args, func(t *testing.T) {
			got, want := proxied.run(t, ctx, strings.Fields(args)...), direct.run(t, ctx, strings.Fields(args)...)
			// An error may contain the server's address.
			got.err = strings.ReplaceAll(got.err, s.URL(), shared.URL())
			if got != want {
				t.Errorf("through the proxy:\n%+v\nkube-apiserver:\n%+v", got, want)
			}
		})
	}
	if got := proxied.run(t, ctx, "delete", "-f", file, "--now"); got.code != 0 || strings.Count(got.out, "deleted") != 2 {
		t.Errorf("delete: %+v", got)
	}
	if served := metric(t, ctx, s, "weir_proxy_served_total{"); served == 0 {
		t.Error("nothing was answered from the cache")
	}
}

// TestKubectlWatch checks that kubectl get -w prints changes, and that the cache serves its watch.
// The user has a client certificate.
func TestKubectlWatch(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "carol", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}})
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	proxied, _ := kubectls(t, s)
	proxied.kubeconfig = kubeconfig(t, through(t, s, issue(t, callers, "carol")))
	pods := clientFor(t, shared.Config()).CoreV1().Pods("default")
	for _, form := range []string{"name", "json"} { // the proxy forwards requests for tables
		ctx, cancel := context.WithCancel(ctx)
		before := metric(t, ctx, s, `weir_proxy_served_total{group="",resource="pods",verb="watch"}`)
		cmd := proxied.command(ctx, "get", "pods", "-n", "default", "-l", "app=e2e", "-w", "-o", form)
		out, err := cmd.StdoutPipe()
		check.NoError(t, err)
		check.NoError(t, cmd.Start())
		testenv.Eventually(t, ctx, "kubectl watches", func() bool {
			return metric(t, ctx, s, `weir_proxy_served_total{group="",resource="pods",verb="watch"}`) > before
		})
		for _, name := range []string{"watched-1", "watched-2"} {
			if _, err := pods.Create(ctx, newPod(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		lines := bufio.NewScanner(out)
		for _, name := range []string{"watched-1", "watched-2"} {
			for found := false; !found; {
				if !lines.Scan() {
					t.Fatalf("-o %s ended before %s: %v", form, name, lines.Err())
				}
				found = strings.Contains(lines.Text(), name)
			}
		}
		cancel()
		_ = cmd.Wait() // ignore the error: cancel has killed kubectl
		for _, name := range []string{"watched-1", "watched-2"} {
			check.NoError(t, pods.Delete(context.WithoutCancel(ctx), name, *metav1.NewDeleteOptions(0)))
		}
	}
}

// copied is a label. Its value is "wanted" for a ConfigMap to copy, and "made" for a copy.
const copied = "copied"

// copier is a controller that maintains a copy of each ConfigMap with the label copied=wanted. The
// original owns its copy.
type copier struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (c copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	if err := c.Get(ctx, req.NamespacedName, &original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels[copied] != "wanted" || original.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	duplicate := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: original.Name + "-copy"}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, duplicate, func() error {
		duplicate.Data, duplicate.Labels = original.Data, map[string]string{copied: "made"}
		return controllerutil.SetControllerReference(&original, duplicate, c.Scheme())
	})
	return ctrl.Result{}, err // the manager retries after an error, such as a cache that is behind
}

// TestManager runs a manager of controller-runtime, with controller-runtime's own cache. The proxy
// is its only API server. The test checks that the manager's controller reacts to changes.
func TestManager(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "carol", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "configmaps/finalizers"}, Verbs: []string{"*"}})
	s := start(t, ctx, proxy.Options{Resources: []string{"configmaps"}, TrustCache: []string{"configmaps"}})
	ctrl.SetLogger(logr.Discard())
	carol := issue(t, callers, "carol")
	straight := shared.Config()
	straight.BearerToken, straight.CertData, straight.KeyData = "", carol.CertData, carol.KeyData
	asCarol := clientFor(t, straight)
	// Without the permission, the proxy would forward the manager's first watch, and would not serve
	// that watch from the cache later.
	testenv.Eventually(t, ctx, "the permission has come", func() bool {
		_, err := asCarol.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err == nil
	})
	cfg := through(t, s, carol)
	// HTTPClient closes the transport's connections when the test ends. The manager shares the
	// transport.
	cluster.HTTPClient(t, cfg)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: new(true)},
	})
	check.NoError(t, err)
	labelled := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[copied] != "" })
	check.NoError(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).WithEventFilter(labelled).Complete(copier{mgr.GetClient()}))
	running, cancel := context.WithCancel(ctx)
	var manager sync.WaitGroup
	manager.Go(func() {
		if err := mgr.Start(running); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		manager.Wait()
	})

	maps := clientFor(t, shared.Config()).CoreV1().ConfigMaps("default")
	holds := func(what, value string) {
		t.Helper()
		testenv.Eventually(t, ctx, what, func() bool {
			m, err := maps.Get(ctx, "original-copy", metav1.GetOptions{})
			return err == nil && m.Data["key"] == value && metav1.GetControllerOf(m) != nil
		})
	}
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "original", Labels: map[string]string{copied: "wanted"}}, Data: map[string]string{"key": "one"}}
	if _, err := maps.Create(ctx, original, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"original", "original-copy"} {
			if err := maps.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	holds("it is copied", "one")
	if _, err := maps.Patch(ctx, "original", types.MergePatchType, []byte(`{"data":{"key":"two"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("the copy follows", "two")
	check.NoError(t, maps.Delete(ctx, "original-copy", metav1.DeleteOptions{}))
	holds("the copy comes back", "two")
	if metric(t, ctx, s, `weir_proxy_served_total{group="",resource="configmaps",verb="watch"}`) < 1 {
		t.Error("no watch was answered from the cache")
	}
}
