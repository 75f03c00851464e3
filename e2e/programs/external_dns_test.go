package programs

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// publishes is the test of external-dns: it runs external-dns unchanged and changed to use the
// drop-in, and compares both. external-dns makes a DNS record for each pod, under the pod's name.
// It also makes DNS records for the pods of each app, under the name of the app's service.
var publishes = observer{
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		nodes := 0
		w.makeNodesOfPods(t, ctx, func(node *corev1.Node) {
			nodes++
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: externalIP(nodes)})
		})
		for i := range w.pods.(*podsim.Pods).Apps() {
			w.makeAppService(t, ctx, i)
		}
		return nil
	},
	count: func(w *world) int {
		apps := len(w.pods.(*podsim.Pods).Apps())
		ports := (apps + nodePortEvery - 1) / nodePortEvery
		return w.pods.Len() + apps + ports // such a service has an additional SRV record
	},
	changes: []change{func(t *testing.T, ctx context.Context, w *world) []string {
		last := w.churn(t, ctx, 300)
		w.moveNodes(t, ctx)
		w.movePods(t, ctx)
		w.moveServices(t, ctx)
		// external-dns reports this service only after it has received the service's EndpointSlice and
		// the last label change of the selected pod.
		w.makeService(t, ctx, last, map[string]string{"churn": last}, false, []*corev1.Pod{w.pods.Pod(0)})
		return []string{last + domain}
	}},
}

const (
	// dnsPrefix is the prefix of the annotations that external-dns reads.
	dnsPrefix = "external-dns.kubernetes.io/"
	// domain is the suffix of the DNS names of the services.
	domain = ".example.org"
	// nodePortEvery is the distance between services that have a port on the nodes of their pods:
	// every twentieth. The other services are headless.
	nodePortEvery = 20
)

func externalIP(i int) string { return fmt.Sprintf("203.0.%d.%d", i>>8&255, i&255) }

// app returns the name and the pods of app i.
func (w *world) app(i int) (name string, its []*corev1.Pod) {
	pods := w.pods.(*podsim.Pods)
	for j := pods.FirstOf(i); j < min(pods.FirstOf(i+1), pods.Len()); j++ {
		its = append(its, pods.Pod(j))
	}
	return pods.Apps()[i], its
}

// makeAppService creates the service of app i and its EndpointSlice.
func (w *world) makeAppService(t *testing.T, ctx context.Context, i int) {
	t.Helper()
	name, its := w.app(i)
	w.makeService(t, ctx, name, map[string]string{"app": name}, i%nodePortEvery == 0, its)
}

// makeService creates a service and its EndpointSlice. pods must be all pods that match the
// selector.
func (w *world) makeService(t *testing.T, ctx context.Context, name string, selector map[string]string, onNodes bool, pods []*corev1.Pod) {
	t.Helper()
	namespace := pods[0].Namespace
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{dnsPrefix + "hostname": name + domain}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: selector,
			Ports: []corev1.ServicePort{{Name: "http", Port: 8080}},
		},
	}
	if onNodes {
		service.Spec.ClusterIP, service.Spec.Type = "", corev1.ServiceTypeNodePort
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyTypeLocal
	}
	_, err := w.client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	if err == nil {
		_, err = w.client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, sliceOf(name, pods), metav1.CreateOptions{})
	}
	check.NoError(t, err)
}

// sliceOf returns the EndpointSlice of a service with these pods.
func sliceOf(name string, pods []*corev1.Pod) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod.Status.PodIP}, NodeName: new(pod.Spec.NodeName),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
	}
	return slice
}

// moveNodes changes the nodes of the first two pods, and deletes the node of the third pod. The
// pods belong to the first service, which has a port on their nodes.
func (w *world) moveNodes(t *testing.T, ctx context.Context) {
	t.Helper()
	nodes := w.client.CoreV1().Nodes()
	on := func(i int) string { return w.pods.Pod(min(i, w.pods.Len()-1)).Spec.NodeName }
	moved := []byte(`{"status":{"addresses":[{"type":"ExternalIP","address":"203.0.113.1"},{"type":"ExternalIP","address":"2001:db8::1"}]}}`)
	_, err := nodes.Patch(ctx, on(0), types.MergePatchType, moved, metav1.PatchOptions{}, "status")
	if err == nil {
		_, err = nodes.Patch(ctx, on(1), types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	}
	if err == nil {
		err = nodes.Delete(ctx, on(2), metav1.DeleteOptions{})
	}
	check.NoError(t, err)
}

// movePods changes each of the first 300 pods: it changes a field that external-dns reads, or
// deletes the pod. It then reverts half of these changes.
func (w *world) movePods(t *testing.T, ctx context.Context) {
	t.Helper()
	const ways = 7
	for i := range min(300, w.pods.Len()) {
		pod := w.pods.Pod(i)
		pods := w.client.CoreV1().Pods(pod.Namespace)
		patch := [ways]string{
			fmt.Sprintf(`{"metadata":{"annotations":{"%shostname":"node-of-%d.example.org"}}}`, dnsPrefix, i),
			fmt.Sprintf(`{"metadata":{"annotations":{"%starget":"192.0.2.%d"}}}`, dnsPrefix, i%250),
			`{"metadata":{"labels":{"app":"another"}}}`,
			"", // deleted
			fmt.Sprintf(`{"metadata":{"annotations":{"%scontroller":"another"}}}`, dnsPrefix),
			fmt.Sprintf(`{"metadata":{"annotations":{"%sttl":"60"}}}`, dnsPrefix),
			fmt.Sprintf(`{"metadata":{"annotations":{"%sinternal-hostname":"pod-%d.example.org,some.example.org"}}}`, dnsPrefix, i),
		}[i%ways]
		var err error
		if patch == "" {
			err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		} else {
			_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		if back := i/ways%2 == 1; back && err == nil && patch == "" {
			err = w.replace(ctx, i)
		} else if back && err == nil {
			patch = fmt.Sprintf(`{"metadata":{"annotations":null,"labels":{"app":%q}}}`, pod.Labels["app"])
			_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		check.NoError(t, err)
	}
}

// moveServices changes or deletes some of the headless services or their EndpointSlices.
func (w *world) moveServices(t *testing.T, ctx context.Context) {
	t.Helper()
	pods := w.pods.(*podsim.Pods)
	apps := pods.Apps()
	for i := 1; i < min(20, len(apps)); i++ {
		name, namespace := apps[i], pods.Pod(pods.FirstOf(i)).Namespace
		services, slices := w.client.CoreV1().Services(namespace), w.client.DiscoveryV1().EndpointSlices(namespace)
		var err error
		switch i % 5 {
		case 0:
			err = services.Delete(ctx, name, metav1.DeleteOptions{})
		case 1:
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"%shostname":"moved-%d.example.org"}}}`, dnsPrefix, i)
			_, err = services.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		case 2:
			_, err = services.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"selector":{"app":"another"}}}`), metav1.PatchOptions{})
		case 3:
			err = slices.Delete(ctx, name, metav1.DeleteOptions{})
		default:
			var slice *discoveryv1.EndpointSlice
			if slice, err = slices.Get(ctx, name, metav1.GetOptions{}); err == nil {
				slice.Endpoints[0].Conditions.Ready = new(false)
				slice.Endpoints[len(slice.Endpoints)-1].Addresses = []string{fmt.Sprintf("10.8.0.%d", i)}
				_, err = slices.Update(ctx, slice, metav1.UpdateOptions{})
			}
		}
		check.NoError(t, err)
	}
}
