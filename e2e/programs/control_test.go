package programs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// control tests kube-controller-manager. It creates, changes and deletes a Deployment, a
// StatefulSet, a Job, a custom resource and their namespace. After each step, control waits until
// the namespace has the objects that the controllers must create. It returns these objects.
func control(t *testing.T, ctx context.Context, binary string) (usage, []string) {
	w := newWorld(t, ctx, population{bound: podsim.New(*podsFlag, 1), pending: podsim.New(0, 2)})
	w.makeNodes(t, ctx)
	l := &lives{t: t, world: w}
	l.define(ctx)
	s, err := start(binary, w.kubeconfig, "--kubeconfig="+w.kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--node-monitor-grace-period=4h", // no kubelet renews the nodes' leases
	)
	check.NoError(t, err)
	t.Cleanup(func() { // runs before the cluster is stopped
		if s.end(); t.Failed() {
			t.Log(s.log)
		}
	})
	ctx, cancel := context.WithTimeout(s.alive(ctx), deadline)
	defer cancel()
	cluster.StartKubelet(t, ctx, w.client, informers.WithNamespace(livesNamespace))
	l.begin(ctx)
	l.change(ctx)
	l.collect(ctx)
	l.end(ctx)
	return s.end(), l.told
}

const livesNamespace = "lives"

// lives creates, changes and deletes objects that controllers manage, step by step.
type lives struct {
	*world
	t    *testing.T
	told []string // the expected lines of all steps
}

// define creates the CustomResourceDefinition of widgets, and waits until widgets are served.
func (l *lives) define(ctx context.Context) {
	l.world.define(l.t, ctx, `
		{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.programs.example.com}, spec: {
		  group: programs.example.com, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList},
		  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`)
}

// begin creates the namespace and the objects in it.
func (l *lives) begin(ctx context.Context) {
	if _, err := l.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: livesNamespace}}, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	const template = `spec: {nodeName: node-00, automountServiceAccountToken: false, containers: [{name: c, image: "image:1"}]}`
	web := l.create(ctx, livesNamespace, deployments, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {
		replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, `+template+`}}}`)
	l.create(ctx, livesNamespace, schema.GroupVersionResource{Version: "v1", Resource: "services"}, `{apiVersion: v1, kind: Service,
		metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: 80}]}}`)
	l.create(ctx, livesNamespace, statefulSets, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {
		serviceName: db, replicas: 2, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, `+template+`}}}`)
	l.create(ctx, livesNamespace, jobs, `{apiVersion: batch/v1, kind: Job, metadata: {name: work}, spec: {completions: 3, parallelism: 2, template: {
		spec: {nodeName: node-00, restartPolicy: Never, automountServiceAccountToken: false, containers: [{name: c, image: "image:1"}]}}}}`)
	widget := l.create(ctx, livesNamespace, widgets, `{apiVersion: programs.example.com/v1, kind: Widget, metadata: {name: w}}`)
	l.own(ctx, "of-web", web)
	l.own(ctx, "of-widget", widget)
	l.await(ctx, `
		ConfigMap kube-root-ca.crt
		ConfigMap of-web of Deployment web
		ConfigMap of-widget of Widget w
		ControllerRevision db-# of StatefulSet db
		Deployment web: 3 of 3
		EndpointSlice web-* of Service web: 3 endpoints
		Job work: 3 succeeded, SuccessCriteriaMet, Complete
		Pod db-0 of StatefulSet db: image:1 Running
		Pod db-1 of StatefulSet db: image:1 Running
		Pod web-#-* of ReplicaSet web-#: image:1 Running
		Pod web-#-* of ReplicaSet web-#: image:1 Running
		Pod web-#-* of ReplicaSet web-#: image:1 Running
		Pod work-* of Job work: image:1 Succeeded
		Pod work-* of Job work: image:1 Succeeded
		Pod work-* of Job work: image:1 Succeeded
		ReplicaSet web-# of Deployment web: 3 of 3
		ServiceAccount default
		StatefulSet db: 2 of 2
		Widget w`)
}

// change scales the Deployment and the StatefulSet, and changes the image of both.
func (l *lives) change(ctx context.Context) {
	const image = `,"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`
	l.patch(ctx, deployments, "web", `{"spec":{"replicas":4`+image)
	l.patch(ctx, statefulSets, "db", `{"spec":{"replicas":1`+image)
	l.await(ctx, `
		ConfigMap kube-root-ca.crt
		ConfigMap of-web of Deployment web
		ConfigMap of-widget of Widget w
		ControllerRevision db-# of StatefulSet db
		ControllerRevision db-# of StatefulSet db
		Deployment web: 4 of 4
		EndpointSlice web-* of Service web: 4 endpoints
		Job work: 3 succeeded, SuccessCriteriaMet, Complete
		Pod db-0 of StatefulSet db: image:2 Running
		Pod web-#-* of ReplicaSet web-#: image:2 Running
		Pod web-#-* of ReplicaSet web-#: image:2 Running
		Pod web-#-* of ReplicaSet web-#: image:2 Running
		Pod web-#-* of ReplicaSet web-#: image:2 Running
		Pod work-* of Job work: image:1 Succeeded
		Pod work-* of Job work: image:1 Succeeded
		Pod work-* of Job work: image:1 Succeeded
		ReplicaSet web-# of Deployment web: 0 of 0
		ReplicaSet web-# of Deployment web: 4 of 4
		ServiceAccount default
		StatefulSet db: 1 of 1
		Widget w`)
}

// collect deletes objects that own other objects. It uses each deletion propagation policy.
func (l *lives) collect(ctx context.Context) {
	for _, of := range []struct {
		resource schema.GroupVersionResource
		name     string
		how      metav1.DeletionPropagation
	}{
		{deployments, "web", metav1.DeletePropagationForeground}, {statefulSets, "db", metav1.DeletePropagationOrphan},
		{jobs, "work", metav1.DeletePropagationBackground}, {widgets, "w", metav1.DeletePropagationBackground},
	} {
		check.NoError(l.t, l.objects.Resource(of.resource).Namespace(livesNamespace).Delete(ctx, of.name, metav1.DeleteOptions{PropagationPolicy: &of.how}))
	}
	l.await(ctx, `
		ConfigMap kube-root-ca.crt
		ControllerRevision db-#
		ControllerRevision db-#
		EndpointSlice web-* of Service web: 0 endpoints
		Pod db-0: image:2 Running
		ServiceAccount default`)
}

// end deletes the namespace, and waits until the namespace and its objects no longer exist.
func (l *lives) end(ctx context.Context) {
	check.NoError(l.t, l.client.CoreV1().Namespaces().Delete(ctx, livesNamespace, metav1.DeleteOptions{}))
	testenv.EventuallyNoError(l.t, ctx, "the namespace is gone", func() error {
		namespace, err := l.client.CoreV1().Namespaces().Get(ctx, livesNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v, %v", &namespace.Status, err)
	})
	l.await(ctx, "")
}

// await waits until the inventory of the namespace equals the lines of want.
func (l *lives) await(ctx context.Context, want string) {
	l.t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	testenv.EventuallyNoError(l.t, ctx, "there is "+want, func() error {
		got, err := inventory(ctx, l.objects, livesNamespace)
		if err != nil && ctx.Err() == nil {
			l.t.Fatal(err)
		}
		if !slices.Equal(got, lines) {
			return fmt.Errorf("there is\n\t%s", strings.Join(got, "\n\t"))
		}
		return nil
	})
	l.told = append(l.told, lines...)
}

var (
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	jobs         = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

func (l *lives) create(ctx context.Context, namespace string, resource schema.GroupVersionResource, text string) *unstructured.Unstructured {
	l.t.Helper()
	return createYAML(l.t, ctx, l.objects.Resource(resource).Namespace(namespace), text)
}

func (l *lives) own(ctx context.Context, name string, owner *unstructured.Unstructured) {
	l.t.Helper()
	_, err := l.client.CoreV1().ConfigMaps(livesNamespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())},
	}}, metav1.CreateOptions{})
	check.NoError(l.t, err)
}

func (l *lives) patch(ctx context.Context, resource schema.GroupVersionResource, name, patch string) {
	l.t.Helper()
	_, err := l.objects.Resource(resource).Namespace(livesNamespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	check.NoError(l.t, err)
}
