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

// discovers is the test of Istio's kclient and krt: pilot's registry must have the same services
// and endpoints, and its ambient index the same services and workloads.
var discovers = observer{
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		zone := 0
		w.makeNodesOfPods(t, ctx, func(node *corev1.Node) {
			zone++
			node.Labels = map[string]string{corev1.LabelTopologyRegion: "region", corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", zone%3)}
		})
		for i := range w.pods.(*podsim.Pods).Apps() {
			w.makeAppService(t, ctx, i)
		}
		return nil
	},
	// Each pod is an endpoint and a workload. The service kubernetes has no endpoints.
	count: func(w *world) int { return 2*w.pods.Len() + len(w.pods.(*podsim.Pods).Apps()) + 1 },
	// The registry does not revise endpoints after all changes of other objects. Each change therefore
	// leads to the same endpoints in any order of events: it deletes no object and creates it again,
	// and a deleted pod is not an endpoint of an existing service.
	changes: []change{
		func(t *testing.T, ctx context.Context, w *world) []string {
			w.moveEndpoints(t, ctx, 0)
			return w.markEndpoints(t, ctx)
		},
		func(t *testing.T, ctx context.Context, w *world) []string {
			w.restoreEndpoints(t, ctx, 0)
			w.moveEndpoints(t, ctx, movedApps)
			w.restartAPIServer(t, ctx)
			w.restoreEndpoints(t, ctx, movedApps/2)
			w.moveEndpoints(t, ctx, 2*movedApps)
			return w.markEndpoints(t, ctx)
		},
	},
}

// movedApps is the number of apps that moveEndpoints moves.
const movedApps = 16

// eachApp calls f with n apps, but not with the last app, which markEndpoints changes.
func (w *world) eachApp(first, n int, f func(i int, name string, its []*corev1.Pod)) {
	for i := first; i < min(first+n, len(w.pods.(*podsim.Pods).Apps())-1); i++ {
		name, its := w.app(i)
		f(i, name, its)
	}
}

// moveEndpoints moves apps as their rollouts do. Of each four pods, it deletes one, labels another,
// and a third is no longer ready. It also deletes some services and changes the ports of others.
func (w *world) moveEndpoints(t *testing.T, ctx context.Context, first int) {
	t.Helper()
	w.eachApp(first, movedApps, func(i int, name string, its []*corev1.Pod) {
		core, slices := w.client.CoreV1(), w.client.DiscoveryV1().EndpointSlices(its[0].Namespace)
		services, pods := core.Services(its[0].Namespace), core.Pods(its[0].Namespace)
		slice := sliceOf(name, its)
		slice.Endpoints = nil
		for j, endpoint := range sliceOf(name, its).Endpoints {
			var err error
			switch j % 4 {
			case 0:
				check.NoError(t, pods.Delete(ctx, its[j].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
				continue
			case 1:
				_, err = pods.Patch(ctx, its[j].Name, types.MergePatchType, labelled(name), metav1.PatchOptions{})
			case 2: // without these conditions, the endpoint's health depends on the order of events
				endpoint.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(false)}
			}
			check.NoError(t, err)
			slice.Endpoints = append(slice.Endpoints, endpoint)
		}
		if i%4 == 0 {
			check.NoError(t, services.Delete(ctx, name, metav1.DeleteOptions{}))
			check.NoError(t, slices.Delete(ctx, name, metav1.DeleteOptions{}))
			return
		}
		if i%4 == 1 {
			_, err := services.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"ports":[{"name":"http","port":8081}]}}`), metav1.PatchOptions{})
			check.NoError(t, err)
		}
		_, err := slices.Update(ctx, slice, metav1.UpdateOptions{})
		check.NoError(t, err)
	})
}

// restoreEndpoints creates the objects again that moveEndpoints has deleted of half as many apps.
func (w *world) restoreEndpoints(t *testing.T, ctx context.Context, first int) {
	t.Helper()
	w.eachApp(first, movedApps/2, func(i int, name string, its []*corev1.Pod) {
		for j := 0; j < len(its); j += 4 {
			check.NoError(t, w.replace(ctx, w.pods.(*podsim.Pods).FirstOf(i)+j))
		}
		if i%4 == 0 {
			w.makeAppService(t, ctx, i)
			return
		}
		_, err := w.client.DiscoveryV1().EndpointSlices(its[0].Namespace).Update(ctx, sliceOf(name, its), metav1.UpdateOptions{})
		check.NoError(t, err)
	})
}

// markEndpoints changes a pod and creates a service and its EndpointSlice. It returns texts that
// the program reports after the registry and the index have received these changes.
func (w *world) markEndpoints(t *testing.T, ctx context.Context) (texts []string) {
	t.Helper()
	w.churns++
	last, pod := fmt.Sprintf("last-%d", w.churns), w.pods.Pod(w.pods.Len()-1)
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"service.istio.io/canonical-name":%q}}}`, last)
	_, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	check.NoError(t, err)
	w.makeService(t, ctx, last, nil, false, []*corev1.Pod{w.pods.Pod(w.pods.Len() - 2)})
	key := w.pods.Pod(w.pods.Len()-2).Namespace + "/" + last + "."
	return []string{
		// The registry reports a service, its endpoint, and the labels of an endpoint.
		`"service ` + last + ".", `"endpoint ` + last + ".", `"service.istio.io/canonical-name":"` + last,
		// The ambient index reports a service, the service of a workload, and a workload.
		`"address ` + key, `"` + key, `"canonicalName":"` + last,
	}
}
