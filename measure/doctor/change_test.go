package doctor

import (
	"context"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/pager"

	"github.com/weirproject/weir/internal/testing/check"
)

// written contains the lines of code that doctor tells users to write, verbatim, so that the
// compiler checks them. It contains lines for resources with namespaces, for resources without
// namespaces, and for custom resources.
type written struct {
	selector       labels.Selector
	options        metav1.ListOptions
	app, namespace string
	name           string
	last           string
	each           func(runtime.Object) error
	ptr            struct{ To func(int64) *int64 }
}

func (w written) builtin(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) {
	selector, options, app, namespace, name, last, each, ptr := w.selector, w.options, w.app, w.namespace, w.name, w.last, w.each, w.ptr
	factory.Apps().V1().Deployments().Lister().List(selector)
	client.AppsV1().Deployments("").List(ctx, options)
	factory.Apps().V1().Deployments().Lister().Deployments(namespace).List(selector)
	client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + os.Getenv("NODE_NAME"), ResourceVersion: "0"})
	factory.Discovery().V1().EndpointSlices().Informer().GetIndexer().ByIndex("app", app)
	client.RbacV1().ClusterRoles().Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true})
	client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: last, TimeoutSeconds: ptr.To(int64(300 + rand.IntN(300)))})
	pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Nodes().List(ctx, o)
	}).EachListItem(ctx, metav1.ListOptions{Limit: 500}, each)
	factory.Core().V1().Nodes().Lister().List(selector)
	factory.Core().V1().Secrets().Lister().Secrets(namespace).Get(name)
}

func (w written) custom(ctx context.Context, client dynamic.Interface, factory dynamicinformer.DynamicSharedInformerFactory) {
	selector, options, app, namespace, name, last, each := w.selector, w.options, w.app, w.namespace, w.name, w.last, w.each
	factory.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).Lister().ByNamespace(namespace).Get(name)
	factory.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).Lister().List(selector)
	client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).List(ctx, options)
	factory.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).Lister().ByNamespace(namespace).List(selector)
	factory.ForResource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).Informer().GetIndexer().ByIndex("app", app)
	client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true})
	pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}).List(ctx, o)
	}).EachListItem(ctx, metav1.ListOptions{Limit: 500}, each)
}

// kindOf returns the kind with a name.
func kindOf(name string) *kind {
	return kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })]
}

// lineOf returns the line of code for a kind of finding if doctor knows only the resource.
func lineOf(kind, resource, version string) string {
	return kindOf(kind).change(apiOf(resource, version), nil)
}

// TestChange checks that doctor suggests exactly the lines that written contains.
func TestChange(t *testing.T) {
	_, _ = written.builtin, written.custom
	source, err := os.ReadFile("change_test.go")
	check.NoError(t, err)
	read, told := strings.Join(strings.Fields(string(source)), " "), map[string]string{}
	tell := func(resource, line string) {
		t.Helper()
		told[line] = resource
		line, replaced, _ := strings.Cut(line, " // in the place of ")
		for _, code := range []string{line, replaced} {
			code, _, _ = strings.Cut(code, " // ")
			if code != "" && !strings.HasPrefix(code, "a LIST") && code != "a GET" && !strings.Contains(read, " "+code+" ") {
				t.Errorf("%s: the compiler has not read %s", resource, code)
			}
		}
	}
	for kind, resource := range map[string]string{
		FindingPolling: "deployments.apps", FindingResync: "deployments.apps", FindingNodes: "pods", FindingPart: "endpointslices.discovery.k8s.io",
		FindingRelist: "clusterroles.rbac.authorization.k8s.io", FindingWatches: "configmaps", FindingFailing: "nodes", FindingGets: "secrets",
	} {
		tell(resource, lineOf(kind, resource, ""))
		if kind != FindingNodes && kind != FindingWatches {
			tell("widgets", lineOf(kind, "widgets.example.com", "v1beta1"))
		}
	}
	tell("nodes", lineOf(FindingResync, "nodes", "v1"))
	tell("deployments.apps", kindOf(FindingPart).changeOf(Client{}, &usage{resource: "deployments.apps", version: "v1"}))
	if len(told) != 16 {
		t.Errorf("%d lines: %v", len(told), told)
	}
}

// TestChangeByName checks that a user of kubectl gets a command. It checks that a client whose
// LISTs occupied the seats of priority and fairness gets a line for a FlowSchema. It checks that an
// unknown version becomes a variable named version.
func TestChangeByName(t *testing.T) {
	kubectl := Client{Agent: "kubectl/v1.37.2"}
	for _, tt := range []struct{ got, want string }{
		{kindOf(FindingPolling).changeOf(kubectl, &usage{resource: "deployments.apps"}), "kubectl get deployments.apps --all-namespaces --watch # once,"},
		{kindOf(FindingWatches).changeOf(kubectl, &usage{resource: "nodes"}), "kubectl get nodes --watch --request-timeout=0 #"},
		{kindOf(FindingRelist).changeOf(kubectl, &usage{resource: "nodes"}), "kubectl get nodes --watch # once,"},
		{kindOf(FindingFailing).changeOf(kubectl, &usage{resource: "widgets.example.com"}), "kubectl get widgets.example.com --all-namespaces --chunk-size=500 #"},
		{ofSchema(Client{User: "system:serviceaccount:shop:app"}), `subjects: [{kind: ServiceAccount, serviceAccount: {namespace: "shop", name: "app"}}] #`},
		{ofSchema(Client{User: "jane"}), `subjects: [{kind: User, user: {name: "jane"}}] #`},
		{ofSchema(Client{User: nodes}), `subjects: [{kind: Group, group: {name: "system:nodes"}}] #`},
		{lineOf(FindingRelist, "widgets.example.com", ""), `client.Resource(schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"})`},
		{lineOf(FindingRelist, "cronjobs.batch", "v1beta1"), `client.BatchV1beta1().CronJobs("").Watch(`},
		{lineOf(FindingRelist, "pods/status", "v1"), `client.CoreV1().Pods("").Watch(`},
	} {
		if !strings.HasPrefix(tt.got, tt.want) {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

// TestMethods checks that the map methods contains exactly the methods of client-go whose resources
// can be WATCHed.
func TestMethods(t *testing.T) {
	groups := map[string]string{}
	for group := range methods {
		groups[api{group: group}.clientGroup()] = group
	}
	client, told := reflect.ValueOf(fake.NewClientset()), map[api]bool{}
	for i := range client.NumMethod() {
		name, version, ok := strings.Cut(client.Type().Method(i).Name, "V")
		if name == "Extensions" || !ok || client.Type().Method(i).Type.NumIn() != 1 {
			continue
		}
		of := client.Method(i).Call(nil)[0].Elem()
		for j := range of.NumMethod() {
			m := of.Type().Method(j)
			if m.Type.NumOut() != 1 || m.Type.NumIn() > 2 {
				continue
			}
			if _, ok := m.Type.Out(0).MethodByName("Watch"); !ok {
				continue
			}
			group, ok := groups[name]
			if !ok {
				t.Errorf("%sV%s has %s: methods has no such group", name, version, m.Name)
				continue
			}
			want := api{group: group, version: "v" + version, resource: strings.ToLower(m.Name), method: m.Name, cluster: m.Type.NumIn() == 1}
			told[api{group: group, method: m.Name}] = true
			kubectl := strings.TrimSuffix(want.resource+"."+group, ".")
			check.Equal(t, apiOf(kubectl, want.version), want, "%s", kubectl)
		}
	}
	for group, names := range methods {
		for name := range strings.FieldsSeq(names) {
			if name = strings.TrimSuffix(name, "."); !told[api{group: group, method: name}] {
				t.Errorf("%s has no %s", group, name)
			}
		}
	}
}
