package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

const manifests = "../../deploy"

// readManifests returns the objects in a folder of deploy.
func readManifests(t *testing.T, folder string) (out []*unstructured.Unstructured) {
	t.Helper()
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(manifests, folder, name))
		check.NoError(t, err)
		return raw
	}
	for _, k := range objectsIn(t, read("kustomization.yaml")) {
		names, _, err := unstructured.NestedStringSlice(k.Object, "resources")
		if err != nil || len(names) == 0 {
			t.Fatal(folder, names, err)
		}
		for _, name := range names {
			out = append(out, objectsIn(t, read(name))...)
		}
	}
	return out
}

func objectsIn(t *testing.T, raw []byte) (out []*unstructured.Unstructured) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
}

// apply creates the objects of a folder with strict validation. It creates namespaces,
// ServiceAccounts, RBAC objects and flow schemas, and deletes them when the test ends. It creates
// the other objects only as a dry run.
func apply(t *testing.T, ctx context.Context, folder string) {
	t.Helper()
	client, err := dynamic.NewForConfigAndClient(shared.Config(), cluster.HTTPClient(t, shared.Config()))
	check.NoError(t, err)
	objects := readManifests(t, folder)
	// Create a namespace before the objects in it.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(fmt.Sprint(a.GetKind() != "Namespace"), fmt.Sprint(b.GetKind() != "Namespace"))
	})
	for _, o := range objects {
		gvr, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		to := client.Resource(gvr).Namespace(o.GetNamespace())
		how := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		real := slices.Contains([]string{rbacv1.GroupName, flowcontrolv1.GroupName}, gvr.Group) || slices.Contains([]string{"Namespace", "ServiceAccount"}, o.GetKind())
		if !real {
			how.DryRun = []string{metav1.DryRunAll}
		}
		if _, err := to.Create(ctx, o, how); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if real {
			t.Cleanup(func() { _ = to.Delete(context.WithoutCancel(ctx), o.GetName(), metav1.DeleteOptions{}) })
		}
	}
}

// ledger records the requests that a proxy sends with its own identity. It is safe for concurrent
// use.
type ledger struct {
	mu     sync.Mutex
	asked  sets.Set[string] // verb group/resource
	denied []string
	token  string           // the proxy's token
	flows  sets.Set[string] // UIDs of the FlowSchemas that matched requests with the token
}

// noted is a transport that records the proxy's own requests in a ledger. It ignores requests that
// the proxy forwards for a caller: in these requests, the proxy impersonates the caller.
type noted struct {
	http.RoundTripper
	in *ledger
}

func (n noted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	if err == nil && r.Header.Get("Impersonate-User") == "" { // the proxy's own request
		n.in.note(r, resp)
	}
	return resp, err
}

func (n noted) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

var requestInfos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (l *ledger) note(r *http.Request, resp *http.Response) {
	info, err := requestInfos.NewRequestInfo(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Header.Get("Authorization") == "Bearer "+l.token {
		l.flows.Insert(resp.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID))
	}
	if err == nil && info.IsResourceRequest {
		l.asked.Insert(info.Verb + " " + info.APIGroup + "/" + info.Resource)
	}
	if resp.StatusCode == http.StatusForbidden {
		l.denied = append(l.denied, r.Method+" "+r.URL.Path)
	}
}

// headerOf is a transport that stores the header of the last response.
type headerOf struct {
	http.RoundTripper
	in *http.Header
}

func (h headerOf) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		*h.in = resp.Header
	}
	return resp, err
}

func (h headerOf) WrappedRoundTripper() http.RoundTripper { return h.RoundTripper }

// ruled returns the permissions that the ClusterRoles of a folder grant, in the form "verb
// group/resource".
func ruled(t *testing.T, folder string) sets.Set[string] {
	t.Helper()
	out := sets.New[string]()
	for _, o := range readManifests(t, folder) {
		if o.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		check.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					out.Insert(verb + " " + rule.APIGroups[0] + "/" + resource)
				}
			}
		}
	}
	return out
}

// resourcesOption returns the values of --resources in the Deployment among the objects.
func resourcesOption(t *testing.T, objects []*unstructured.Unstructured) (cached []string) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		var d appsv1.Deployment
		check.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			if names, ok := strings.CutPrefix(arg, "--resources="); ok {
				cached = append(cached, strings.Split(names, ",")...)
			}
		}
	}
	if len(cached) == 0 {
		t.Fatal("no --resources")
	}
	return cached
}

// TestManifests runs a proxy with the ServiceAccount of the manifests. It checks that the
// ServiceAccount has all permissions that the proxy needs, and that the proxy uses each permission
// of the base. It also checks that the manifests' FlowSchema matches all requests of the proxy.
func TestManifests(t *testing.T) {
	ctx := begin(t)
	apply(t, ctx, "base")
	granted(t, ctx, "reader", readPods)
	granted(t, ctx, "carol", readPods)
	admin := clientFor(t, shared.Config())
	token, err := admin.CoreV1().ServiceAccounts("weir-system").CreateToken(ctx, "weir-proxy", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check.NoError(t, err)
	own := rest.AnonymousClientConfig(shared.Config())
	own.BearerToken = token.Status.Token
	notes := &ledger{asked: sets.New[string](), token: own.BearerToken, flows: sets.New[string]()}
	self := clientFor(t, own)
	flow, err := admin.FlowcontrolV1().FlowSchemas().Get(ctx, "weir-proxy", metav1.GetOptions{})
	check.NoError(t, err)
	testenv.Eventually(t, ctx, "its requests flow by their own level", func() bool {
		var got http.Header
		counted := rest.CopyConfig(own)
		counted.Wrap(func(rt http.RoundTripper) http.RoundTripper { return headerOf{rt, &got} })
		_, _ = clientFor(t, counted).Discovery().ServerVersion()
		return got.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(flow.UID)
	})
	testenv.Eventually(t, ctx, "the permissions have come", func() bool {
		_, mayHold := self.AppsV1().StatefulSets("").List(ctx, metav1.ListOptions{Limit: 1})
		_, mayRead := self.CoreV1().ConfigMaps("kube-system").Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		return mayHold == nil && mayRead == nil
	})
	own.Wrap(func(rt http.RoundTripper) http.RoundTripper { return noted{rt, notes} })
	s := start(t, ctx, proxy.Options{Upstream: own, Resources: resourcesOption(t, readManifests(t, "base"))})
	reader, carol := clientFor(t, as(t, s, "reader")), clientFor(t, through(t, s, issue(t, callers, "carol", "staff")))
	zero := metav1.ListOptions{ResourceVersion: "0"}
	before := metric(t, ctx, s, "weir_proxy_served_total{")
	for name, client := range map[string]*kubernetes.Clientset{"token": reader, "certificate": carol} {
		if _, err := client.CoreV1().Pods("").List(ctx, zero); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	check.Equal(t, metric(t, ctx, s, "weir_proxy_served_total{")-before, 2, "reads were answered by the proxy")
	if _, err := reader.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		t.Errorf("a token's request that is passed on: %v", err)
	}
	if _, err := carol.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonate") {
		t.Errorf("a certificate's, without the component: %v", err)
	}
	apply(t, ctx, "impersonation")
	testenv.Eventually(t, ctx, "with the component it is passed on", func() bool {
		_, err := carol.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil
	})
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if len(notes.denied) > 0 {
		t.Errorf("the proxy may not %v", notes.denied)
	}
	if !notes.flows.Equal(sets.New(string(flow.UID))) {
		t.Errorf("the proxy's requests were dispatched by %v, and not all by %v", notes.flows.UnsortedList(), flow.UID)
	}
	for rule := range ruled(t, "base") {
		if !notes.asked.Has(rule) {
			t.Errorf("no component needs to %s", rule)
		}
	}
}

// rendered returns the objects that kubectl kustomize makes of the base and all components.
func rendered(t *testing.T, ctx context.Context) []*unstructured.Unstructured {
	t.Helper()
	root, err := filepath.Abs(manifests)
	check.NoError(t, err)
	dir := t.TempDir()
	relative, err := filepath.Rel(dir, root)
	check.NoError(t, err)
	overlay := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [%[1]s/base]\n"+
		"components: [%[1]s/impersonation, %[1]s/controlplane, %[1]s/monitoring]\n", filepath.ToSlash(relative))
	check.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600))
	raw, err := newKubectl(t, clients.Kubectl, "").command(ctx, "kustomize", dir).Output()
	check.NoError(t, err)
	return objectsIn(t, raw)
}

// TestComponents checks that kubectl can render the base with all components, and that the
// Deployment then caches the resources of the base and of the component controlplane.
func TestComponents(t *testing.T) {
	ctx := begin(t)
	kinds := map[string]int{}
	objects := rendered(t, ctx)
	for _, o := range objects {
		kinds[o.GetKind()]++
	}
	cached := resourcesOption(t, objects)
	if kinds["ServiceMonitor"] != 1 || kinds["ClusterRole"] != 3 || kinds["FlowSchema"] != 1 || kinds["PodDisruptionBudget"] != 1 || kinds["NetworkPolicy"] != 1 {
		t.Errorf("%v", kinds)
	}
	for _, name := range []string{"pods", "persistentvolumes", "csinodes.storage.k8s.io"} {
		if !slices.Contains(cached, name) {
			t.Errorf("%s is not cached", name)
		}
	}
}
