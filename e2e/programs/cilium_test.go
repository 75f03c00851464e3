package programs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/internal/testing/check"
)

// subscribedServices is the number of services, EndpointSlices and CiliumEndpoints of cilium's
// test.
const subscribedServices = 1000

// subscribes is the test of cilium's pkg/k8s/resource. Each resource must have the same objects,
// and each subscriber must receive the same events for each key: Upserts and Deletes in the same
// order, with the same last object, and one Sync after the same number of objects.
var subscribes = observer{
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		w.installDefinitions(t, ctx, "cilium", "github.com/cilium/cilium", "pkg/k8s/apis/cilium.io/client/crds/v2/ciliumendpoints.yaml")
		w.makeDNSServices(t, ctx, subscribedServices)
		inParallel(t, ctx, subscribedServices, w.makeCiliumEndpoint)
		return nil
	},
	// The last one is the service kubernetes.
	count: func(w *world) int { return w.pods.Len() + 3*subscribedServices + 1 },
	// Each change changes an object once, because a subscriber need not receive a deletion if the
	// object is soon created again.
	changes: []change{
		func(t *testing.T, ctx context.Context, w *world) []string {
			w.moveSubscribed(t, ctx, 0)
			return w.mark(t, ctx)
		},
		func(t *testing.T, ctx context.Context, w *world) []string {
			w.recreateSubscribed(t, ctx, 0)
			w.moveSubscribed(t, ctx, 150)
			w.restartAPIServer(t, ctx)
			w.recreateSubscribed(t, ctx, 75)
			w.moveSubscribed(t, ctx, 300)
			return w.mark(t, ctx)
		},
	},
}

var ciliumEndpoints = schema.GroupVersionResource{Group: "cilium.io", Version: "v2", Resource: "ciliumendpoints"}

func (w *world) ciliumEndpoints() dynamic.ResourceInterface {
	return w.objects.Resource(ciliumEndpoints).Namespace(dnsNamespace)
}

// makeCiliumEndpoint creates CiliumEndpoint i.
func (w *world) makeCiliumEndpoint(ctx context.Context, i int) error {
	_, err := tryCreateYAML(ctx, w.ciliumEndpoints(), fmt.Sprintf(`{apiVersion: cilium.io/v2, kind: CiliumEndpoint,
		metadata: {name: %[1]s, labels: {app: %[1]s}, annotations: {note: %[2]q}},
		status: {id: %[3]d, state: ready, service-account: default, named-ports: [{name: http, port: 8080, protocol: TCP}],
		  external-identifiers: {container-id: "%064[4]x", k8s-namespace: dns, k8s-pod-name: %[1]s},
		  identity: {id: %[5]d, labels: ["k8s:app=%[1]s", "k8s:io.cilium.k8s.policy.cluster=default", "k8s:io.kubernetes.pod.namespace=dns"]},
		  networking: {node: 192.0.2.%[6]d, addressing: [{ipv4: 10.200.%[7]d.%[6]d}]},
		  policy: {egress: {enforcing: false, state: disabled}, ingress: {enforcing: true, state: enforcing}}}}`,
		dnsName(i), strings.Repeat("endpoint ", 20), i, i+1<<40, 1000+i%200, i&255, i>>8))
	return err
}

// moveSubscribed deletes a third of 150 pods, services, EndpointSlices and CiliumEndpoints, and
// changes the others.
func (w *world) moveSubscribed(t *testing.T, ctx context.Context, first int) {
	t.Helper()
	services, slices, endpoints := w.client.CoreV1().Services(dnsNamespace), w.client.DiscoveryV1().EndpointSlices(dnsNamespace), w.ciliumEndpoints()
	none := int64(0)
	for i := first; i < first+150; i++ {
		name, pod := dnsName(i), w.pods.Pod(i)
		pods := w.client.CoreV1().Pods(pod.Namespace)
		if i%3 == 0 {
			check.NoError(t, pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
			check.NoError(t, services.Delete(ctx, name, metav1.DeleteOptions{}))
			check.NoError(t, slices.Delete(ctx, name, metav1.DeleteOptions{}))
			check.NoError(t, endpoints.Delete(ctx, name, metav1.DeleteOptions{}))
			continue
		}
		_, err := pods.Patch(ctx, pod.Name, types.MergePatchType, labelled(name), metav1.PatchOptions{})
		check.NoError(t, err)
		_, err = services.Patch(ctx, name, types.MergePatchType, labelled(name), metav1.PatchOptions{})
		check.NoError(t, err)
		_, err = slices.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"add","path":"/endpoints/0/conditions","value":{"ready":false}}]`), metav1.PatchOptions{})
		check.NoError(t, err)
		_, err = endpoints.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"networking":{"node":"192.0.3.1","addressing":[]}}}`), metav1.PatchOptions{})
		check.NoError(t, err)
	}
}

// recreateSubscribed creates the objects again that moveSubscribed has deleted among 75.
func (w *world) recreateSubscribed(t *testing.T, ctx context.Context, first int) {
	t.Helper()
	for i := first; i < first+75; i++ {
		if i%3 == 0 {
			check.NoError(t, w.replace(ctx, i))
			check.NoError(t, w.makeDNSService(ctx, i))
			check.NoError(t, w.makeCiliumEndpoint(ctx, i))
		}
	}
}

// mark changes the last object of each kind, and returns the new values, which no other object has.
func (w *world) mark(t *testing.T, ctx context.Context) (values []string) {
	t.Helper()
	w.churns++
	name, pod := dnsName(subscribedServices-1), w.pods.Pod(w.pods.Len()-1)
	services, slices := w.client.CoreV1().Services(dnsNamespace), w.client.DiscoveryV1().EndpointSlices(dnsNamespace)
	for kind, patch := range map[string]func(value string) error{
		"pod": func(value string) error {
			_, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, labelled(value), metav1.PatchOptions{})
			return err
		},
		"service": func(value string) error {
			_, err := services.Patch(ctx, name, types.MergePatchType, labelled(value), metav1.PatchOptions{})
			return err
		},
		"slice": func(value string) error {
			_, err := slices.Patch(ctx, name, types.MergePatchType, labelled(value), metav1.PatchOptions{})
			return err
		},
		"endpoint": func(value string) error { // the transform removes labels
			_, err := w.ciliumEndpoints().Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"service-account":%q}}`, value), metav1.PatchOptions{})
			return err
		},
	} {
		value := fmt.Sprintf("last-%s-%d", kind, w.churns)
		check.NoError(t, patch(value))
		values = append(values, value)
	}
	return values
}

// labelled returns a merge patch that sets a label.
func labelled(value string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{"moved":%q}}}`, value)
}
