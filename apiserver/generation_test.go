package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestGenerations checks, for many kinds, the generation of a new object, and which changes
// increment the generation. The generation of a PriorityClass never changes, and the generation of
// a CSIDriver starts at 0.
func TestGenerations(t *testing.T) {
	const spec = `{"spec":{"x":"y"}}`
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for _, tt := range []struct {
			resource string // as in kubectl: resource.version.group
			first    int64
			change   string // a merge patch
			then     int64
		}{
			{"services.v1.", 0, `{"spec":{"externalName":"example.com"}}`, 0},
			{"nodes.v1.", 0, `{"spec":{"unschedulable":true}}`, 0},
			{"namespaces.v1.", 0, `{"spec":{"finalizers":["kubernetes"]}}`, 0},
			{"persistentvolumes.v1.", 0, `{"spec":{"storageClassName":"fast"}}`, 0},
			{"persistentvolumeclaims.v1.", 0, `{"spec":{"volumeName":"v"}}`, 0},
			{"resourcequotas.v1.", 0, `{"spec":{"hard":{"pods":"5"}}}`, 0},
			{"configmaps.v1.", 0, `{"data":{"a":"b"}}`, 0},
			{"leases.v1.coordination.k8s.io", 0, `{"spec":{"holderIdentity":"me"}}`, 0},
			{"certificatesigningrequests.v1.certificates.k8s.io", 0, `{"spec":{"username":"jane"}}`, 0},
			{"storageversionmigrations.v1.storagemigration.k8s.io", 0, spec, 0},
			{"csinodes.v1.storage.k8s.io", 0, `{"spec":{"drivers":[{"name":"d","nodeID":"n"}]}}`, 0},
			{"pods.v1.", 1, `{"spec":{"nodeName":"n"}}`, 2},
			{"podtemplates.v1.", 1, `{"template":{"spec":{"nodeName":"n"}}}`, 2},
			{"deployments.v1.apps", 1, `{"spec":{"paused":true}}`, 2},
			{"deployments.v1.apps", 1, `{"metadata":{"annotations":{"a":"b"}}}`, 2},
			{"deployments.v1.apps", 1, `{"metadata":{"labels":{"a":"b"}}}`, 1},
			{"replicasets.v1.apps", 1, `{"metadata":{"annotations":{"a":"b"}}}`, 1},
			{"horizontalpodautoscalers.v2.autoscaling", 1, `{"spec":{"maxReplicas":5}}`, 2},
			{"endpointslices.v1.discovery.k8s.io", 1, `{"ports":[{"port":80}]}`, 2},
			{"endpointslices.v1.discovery.k8s.io", 1, `{"metadata":{"labels":{"a":"b"}}}`, 2},
			{"endpointslices.v1.discovery.k8s.io", 1, `{"metadata":{"annotations":{"a":"b"}}}`, 1},
			{"networkpolicies.v1.networking.k8s.io", 1, `{"spec":{"policyTypes":["Ingress"]}}`, 2},
			{"ingressclasses.v1.networking.k8s.io", 1, `{"spec":{"controller":"example.com/c"}}`, 2},
			{"deviceclasses.v1.resource.k8s.io", 1, `{"spec":{"extendedResourceName":"example.com/r"}}`, 2},
			{"resourceslices.v1.resource.k8s.io", 1, `{"spec":{"driver":"example.com"}}`, 2},
			{"mutatingwebhookconfigurations.v1.admissionregistration.k8s.io", 1, `{"webhooks":[{"name":"w.example.com"}]}`, 2},
			{"validatingadmissionpolicybindings.v1.admissionregistration.k8s.io", 1, `{"spec":{"policyName":"p"}}`, 2},
			{"priorityclasses.v1.scheduling.k8s.io", 1, `{"value":5}`, 1},
			{"csidrivers.v1.storage.k8s.io", 0, `{"spec":{"storageCapacity":true}}`, 1},
		} {
			parts := strings.SplitN(tt.resource, ".", 3)
			gvr := schema.GroupVersionResource{Group: parts[2], Version: parts[1], Resource: parts[0]}
			created, changed := ts.changeOne(gvr, tt.change)
			if created != tt.first || changed != tt.then {
				t.Errorf("%s: generation %d, and after %s %d, want %d and %d", tt.resource, created, tt.change, changed, tt.first, tt.then)
			}
		}
	})
}

// changeOne creates an object, patches it and deletes it. It returns the generations after the
// creation and after the patch.
func (ts *testServer) changeOne(gvr schema.GroupVersionResource, patch string) (created, changed int64) {
	ts.t.Helper()
	list, err := ts.typed.Discovery().ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	check.NoError(ts.t, err)
	client := ts.dynamic.Resource(gvr).Namespace("")
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for _, r := range list.APIResources {
		if r.Name != gvr.Resource {
			continue
		}
		o.SetGroupVersionKind(gvr.GroupVersion().WithKind(r.Kind))
		if r.Namespaced {
			client = ts.dynamic.Resource(gvr).Namespace("default")
		}
	}
	o.SetName("counted")
	if o, err = client.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		ts.t.Fatal(gvr, err)
	}
	created = o.GetGeneration()
	if o, err = client.Patch(ctx, "counted", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		ts.t.Fatal(gvr, err)
	}
	if err := client.Delete(ctx, "counted", metav1.DeleteOptions{}); err != nil {
		ts.t.Fatal(gvr, err)
	}
	return created, o.GetGeneration()
}

// TestGenerationOfStatus checks that a change of a custom resource's status increments the
// generation only if the resource has no status subresource: the status then counts as spec.
func TestGenerationOfStatus(t *testing.T) {
	for _, subresource := range []bool{true, false} {
		widgetResource := apiserver.Resource{GroupVersionResource: widgets, Kind: "Widget", Namespaced: true, Status: subresource}
		withTestServer(t, apiserver.Options{Resources: []apiserver.Resource{widgetResource}}, func(t *testing.T, ts *testServer) {
			client := ts.dynamic.Resource(widgets).Namespace("default")
			if _, err := client.Create(ctx, widget("red", "red"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for i, step := range []struct {
				patch         string
				without, with int64 // the generation, by whether there is a status subresource
			}{
				{`{"metadata":{"labels":{"a":"b"}}}`, 1, 1},
				{`{"status":{"ready":false}}`, 2, 1},
				{`{"status":{"ready":false}}`, 2, 1},
				{`{"spec":{"color":"blue"},"status":null}`, 3, 2},
			} {
				o, err := client.Patch(ctx, "red", types.MergePatchType, []byte(step.patch), metav1.PatchOptions{})
				check.NoError(t, err)
				want := step.without
				if subresource {
					want = step.with
				}
				check.Equal(t, o.GetGeneration(), want, "status subresource %v, patch %d: generation", subresource, i)
			}
			if !subresource {
				return
			}
			ready := []byte(`{"status":{"ready":true}}`)
			o, err := client.Patch(ctx, "red", types.MergePatchType, ready, metav1.PatchOptions{}, "status")
			if err != nil || o.GetGeneration() != 2 {
				t.Errorf("patch of the status: %v, %v", err, o)
			}
		})
	}
}

// TestGenerationOfDeletion checks that a deletion that waits for finalizers increments the object's
// generation, but only if the object has a generation.
func TestGenerationOfDeletion(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for _, tt := range []struct {
			kind, resource string
			generation     int64 // in the request
			want           int64
		}{
			{"ConfigMap", "configmaps", 0, 0},
			{"ConfigMap", "configmaps", 6, 7}, // a new ConfigMap keeps the generation in the request
			{"PodTemplate", "podtemplates", 6, 2},
		} {
			client := ts.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: tt.resource}).Namespace("default")
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": tt.kind}}
			o.SetName("waits")
			o.SetGeneration(tt.generation)
			o.SetFinalizers([]string{"example.com/x"})
			if _, err := client.Create(ctx, o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			check.NoError(t, client.Delete(ctx, "waits", metav1.DeleteOptions{}))
			got, err := client.Get(ctx, "waits", metav1.GetOptions{})
			if err != nil || got.GetGeneration() != tt.want {
				t.Errorf("%s: %v, %v, want generation %d", tt.kind, err, got, tt.want)
			}
			if _, err := client.Patch(ctx, "waits", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
