package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// controlPlane is a kube-controller-manager and a kube-scheduler. A proxy is their only API server.
type controlPlane struct {
	direct, through *kubernetes.Clientset // with an admin's credentials
	proxy           *proxy.Server
	admin           *rest.Config // configuration of an admin for the proxy
	programs        []*cluster.Program
	forwarded       *forwardedLists
}

// forwardedLists records for which resources the proxy forwards a LIST at resourceVersion "0".
// Informers send such LISTs.
type forwardedLists struct {
	mu sync.Mutex
	of sets.Set[string] // group/resource
}

// leftOut are the resources that the manifests intentionally omit from --resources: Secrets,
// ConfigMaps and Leases, and resources that only the garbage collector reads. The garbage collector
// reads every resource.
var leftOut = sets.New(
	"/secrets", "/configmaps", "coordination.k8s.io/leases",
	"/limitranges", "/podtemplates",
	"admissionregistration.k8s.io/mutatingadmissionpolicies", "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
	"admissionregistration.k8s.io/mutatingwebhookconfigurations", "admissionregistration.k8s.io/validatingadmissionpolicybindings",
	"admissionregistration.k8s.io/validatingwebhookconfigurations", "apiextensions.k8s.io/customresourcedefinitions",
	"apiregistration.k8s.io/apiservices", "certificates.k8s.io/clustertrustbundles",
	"flowcontrol.apiserver.k8s.io/flowschemas", "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
	"networking.k8s.io/ingressclasses", "networking.k8s.io/ingresses", "networking.k8s.io/networkpolicies",
	"node.k8s.io/runtimeclasses", "rbac.authorization.k8s.io/clusterrolebindings",
	"rbac.authorization.k8s.io/rolebindings", "rbac.authorization.k8s.io/roles", "scheduling.k8s.io/priorityclasses",
)

// noting is a transport that passes its requests to forwardedLists.
type noting struct {
	http.RoundTripper
	in *forwardedLists
}

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	n.in.note(r)
	return n.RoundTripper.RoundTrip(r)
}

func (n noting) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

// note records a LIST at resourceVersion "0" that the proxy forwards for a caller with a
// certificate. The proxy forwards such requests by impersonation, so they have the header
// Impersonate-User.
func (f *forwardedLists) note(r *http.Request) {
	if r.Header.Get("Impersonate-User") == "" || r.URL.Query().Get("resourceVersion") != "0" {
		return
	}
	if info, err := requestInfos.NewRequestInfo(r); err == nil && info.Verb == "list" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.of.Insert(info.APIGroup + "/" + info.Resource)
	}
}

// startControlPlane starts kube-controller-manager and kube-scheduler behind a proxy, with args in
// addition to their usual arguments. They use a separate cluster, because on the shared cluster the
// garbage collector would delete the simulated pods, whose owners do not exist.
func startControlPlane(t *testing.T, ctx context.Context, args ...string) *controlPlane {
	t.Helper()
	logf := func(format string, args ...any) { t.Logf(format, args...) }
	c, err := cluster.Start(ctx, cluster.Options{
		Authorization: cluster.RBAC, APIServerArgs: []string{"--client-ca-file=" + callers.File}, Logf: logf,
	})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	// This test also needs the proxy to forward the garbage collector's GETs of possible owners. An
	// answer from the cache could be older than the garbage collector's event of the dependent object.
	upstream := c.Config()
	forwarded := &forwardedLists{of: sets.New[string]()}
	upstream.Wrap(func(rt http.RoundTripper) http.RoundTripper { return noting{rt, forwarded} })
	s := start(t, ctx, proxy.Options{
		Upstream: upstream, Resources: resourcesOption(t, rendered(t, ctx)), TrustCache: []string{"pods", "nodes"}, MemoryBudget: 64 << 20,
	})
	cp := &controlPlane{proxy: s, forwarded: forwarded, admin: through(t, s, c.Config()), direct: clientFor(t, c.Config())}
	cp.through = clientFor(t, cp.admin)
	common := func(user string) []string {
		return append([]string{
			"--kubeconfig=" + kubeconfig(t, through(t, s, issue(t, callers, user))),
			"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
		}, args...)
	}
	cp.start(t, clients.ControllerManager, append(common("system:kube-controller-manager"),
		// With this flag, kube-controller-manager uses a ServiceAccount token for each controller, in
		// addition to its certificate.
		"--use-service-account-credentials=true",
		"--node-monitor-grace-period=1h")) // no kubelet renews the node's lease
	cp.start(t, clients.Scheduler, common("system:kube-scheduler"))
	startNode(t, ctx, cp.through)
	return cp
}

func (cp *controlPlane) start(t *testing.T, path string, args []string) {
	t.Helper()
	p, err := cluster.StartProgram(path, args, nil, filepath.Join(t.TempDir(), "log"))
	check.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s ended with:\n%s", filepath.Base(path), p.LastLines())
		}
		p.Stop()
	})
	cp.programs = append(cp.programs, p)
}

// kubeconfig writes cfg to a temporary kubeconfig, and returns the path.
func kubeconfig(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	const name = "e2e"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken, ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, clientcmd.WriteToFile(*out, path))
	return path
}

// until waits until cond returns true. It fails immediately if one of the programs has exited.
func (cp *controlPlane) until(t *testing.T, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	testenv.Eventually(t, ctx, what, func() bool {
		for _, p := range cp.programs {
			check.NoError(t, p.Err())
		}
		return cond()
	})
}

// deploy creates a Deployment, and waits until it has the wanted replicas.
func (cp *controlPlane) deploy(t *testing.T, ctx context.Context, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	if _, err := cp.through.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "image:1"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cp.settled(t, ctx, name, replicas, "image:1")
}

// settled waits until the Deployment has the wanted replicas and image. It then checks the
// Deployment's ReplicaSets and pods at the API server.
func (cp *controlPlane) settled(t *testing.T, ctx context.Context, name string, replicas int32, image string) {
	t.Helper()
	cp.until(t, ctx, name+" is available", func() bool {
		d, err := cp.through.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		check.NoError(t, err)
		st := d.Status
		return st.ObservedGeneration == d.Generation && st.Replicas == replicas && st.UpdatedReplicas == replicas && st.AvailableReplicas == replicas
	})
	var pods []corev1.Pod
	cp.until(t, ctx, "no other pod of "+name+" is left", func() bool {
		_, pods = cp.parts(t, ctx, name)
		return len(pods) == int(replicas)
	})
	sets, pods := cp.parts(t, ctx, name)
	wanted := map[string]int32{}
	for i := range sets {
		wanted[sets[i].Name] = *sets[i].Spec.Replicas
		if owner := metav1.GetControllerOf(&sets[i]); owner == nil || owner.Kind != "Deployment" || owner.Name != name {
			t.Errorf("%s is owned by %v", sets[i].Name, owner)
		}
	}
	for i := range pods {
		p := &pods[i]
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.Kind != "ReplicaSet" || p.Spec.NodeName != madeUpNode || p.Spec.Containers[0].Image != image {
			t.Fatalf("%s: owner %v, node %q, image %s", p.Name, owner, p.Spec.NodeName, p.Spec.Containers[0].Image)
		}
		wanted[owner.Name]--
	}
	for set, n := range wanted {
		check.Equal(t, n, 0, "%s has pods too few", set)
	}
}

// parts returns the ReplicaSets and the pods of a Deployment from the API server.
func (cp *controlPlane) parts(t *testing.T, ctx context.Context, name string) ([]appsv1.ReplicaSet, []corev1.Pod) {
	t.Helper()
	of := metav1.ListOptions{LabelSelector: "app=" + name}
	sets, err := cp.direct.AppsV1().ReplicaSets("default").List(ctx, of)
	check.NoError(t, err)
	pods, err := cp.direct.CoreV1().Pods("default").List(ctx, of)
	check.NoError(t, err)
	return sets.Items, pods.Items
}

// delete deletes the Deployment, and waits until it no longer exists.
func (cp *controlPlane) delete(t *testing.T, ctx context.Context, name string, how metav1.DeletionPropagation) {
	t.Helper()
	check.NoError(t, cp.through.AppsV1().Deployments("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how}))
	cp.until(t, ctx, name+" is gone", func() bool {
		_, err := cp.direct.AppsV1().Deployments("default").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// TestControlPlane runs kube-controller-manager and kube-scheduler through the proxy. By default,
// their informers read the initial state by WATCHes. The test also runs them with informers that
// send LISTs at resourceVersion "0".
func TestControlPlane(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		verb string // verb of the first read of ReplicaSets
	}{
		{"as they come", nil, "watch"},
		{"lists", []string{"--feature-gates=WatchListClient=false"}, "list"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := begin(t)
			cp := startControlPlane(t, ctx, test.args...)
			cp.live(t, ctx)
			cp.checkServed(t, ctx, test.verb)
		})
	}
}

// live checks that the control plane creates a ReplicaSet and running pods for a Deployment. It
// also checks that the Deployment can be scaled, rolled out and deleted.
func (cp *controlPlane) live(t *testing.T, ctx context.Context) {
	t.Helper()
	deployments := cp.through.AppsV1().Deployments("default")
	cp.deploy(t, ctx, "web", 3)

	for _, n := range []int32{5, 2} {
		scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		cp.settled(t, ctx, "web", n, "image:1")
	}

	const roll = `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"image:2"}]`
	if _, err := deployments.Patch(ctx, "web", "application/json-patch+json", []byte(roll), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	cp.settled(t, ctx, "web", 2, "image:2")
	cp.look(t, ctx, "web")
	if sets, _ := cp.parts(t, ctx, "web"); len(sets) != 2 {
		t.Errorf("%d ReplicaSets after it was rolled", len(sets))
	}

	// With foreground deletion, the owner is deleted last.
	cp.delete(t, ctx, "web", metav1.DeletePropagationForeground)
	if sets, pods := cp.parts(t, ctx, "web"); len(sets)+len(pods) > 0 {
		t.Errorf("%d ReplicaSets and %d pods are left", len(sets), len(pods))
	}
	cp.deploy(t, ctx, "shop", 2)
	cp.delete(t, ctx, "shop", metav1.DeletePropagationBackground)
	cp.until(t, ctx, "what it owned is gone", func() bool {
		sets, pods := cp.parts(t, ctx, "shop")
		return len(sets)+len(pods) == 0
	})
	cp.deploy(t, ctx, "heir", 1)
	cp.delete(t, ctx, "heir", metav1.DeletePropagationOrphan)
	sets, pods := cp.parts(t, ctx, "heir")
	if len(sets) != 1 || len(pods) != 1 || metav1.GetControllerOf(&sets[0]) != nil || metav1.GetControllerOf(&pods[0]) == nil {
		t.Errorf("orphaned: %v, %v", sets, pods)
	}
}

// look runs kubectl: it waits for a Deployment, and follows the log of one of its pods to the end.
func (cp *controlPlane) look(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	kubectl := newKubectl(t, clients.Kubectl, kubeconfig(t, cp.admin))
	for _, test := range []struct{ args, want string }{
		{"rollout status deployment/" + name, "successfully rolled out"},
		{"wait --for=condition=Available deployment/" + name, "condition met"},
		{"wait --for=jsonpath={.status.phase}=Running pods -l app=" + name, "condition met"},
		{"logs -f deployment/" + name, theLog},
		{"logs --tail=1 deployment/" + name, "tailLines=1"},
	} {
		if got := kubectl.run(t, ctx, strings.Fields(test.args)...); got.code != 0 || !strings.Contains(got.out, test.want) {
			t.Errorf("kubectl %s: %+v", test.args, got)
		}
	}
}

// checkServed checks that the proxy answered the programs' reads from its cache. verb is the verb
// with which the programs read the initial state. If verb is "list", the cache must have answered a
// LIST and a WATCH of every resource of the component controlplane. The test fails if the proxy has
// forwarded a LIST of a resource that is neither in leftOut nor in the manifests.
func (cp *controlPlane) checkServed(t *testing.T, ctx context.Context, verb string) {
	t.Helper()
	resp := do(t, ctx, cp.admin, http.MethodGet, cp.proxy.URL()+"/metrics")
	missing := map[string]bool{
		// The scheduler, the controllers and the garbage collector read these resources.
		`weir_proxy_served_total{group="",resource="pods",verb="watch"}`:  true,
		`weir_proxy_served_total{group="",resource="nodes",verb="watch"}`: true,
	}
	if verb == "list" {
		for rule := range ruled(t, "controlplane") {
			verb, name, _ := strings.Cut(rule, " ")
			group, resource, _ := strings.Cut(name, "/")
			missing[fmt.Sprintf("weir_proxy_served_total{group=%q,resource=%q,verb=%q}", group, resource, verb)] = true
		}
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, _, _ := strings.Cut(lines.Text(), " ")
		delete(missing, name)
	}
	for name := range missing {
		t.Error("none is counted by", name)
	}
	cp.forwarded.mu.Lock()
	defer cp.forwarded.mu.Unlock()
	if verb == "list" && !cp.forwarded.of.Has("/secrets") {
		t.Errorf("no list of Secrets was noted, which are left out: %v", sets.List(cp.forwarded.of))
	}
	cached := ruled(t, "controlplane").Union(ruled(t, "base"))
	for name := range cp.forwarded.of.Difference(leftOut) {
		if !cached.Has("list " + name) {
			t.Errorf("the manifests do not have %s cached, which an informer reads", name)
		}
	}
}
