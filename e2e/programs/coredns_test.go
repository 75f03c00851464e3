package programs

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/testing/check"
)

const (
	dnsServices  = 5000 // services in CoreDNS' zone
	dnsQueries   = 8000
	dnsNamespace = "dns"
	// lastDNSService is the service that change creates last. No query names it.
	lastDNSService = dnsServices + 1000
)

// resolves is the test of CoreDNS: the zone that CoreDNS transfers and the answers to queries must
// have the same bytes.
var resolves = observer{
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		w.makeDNSServices(t, ctx, dnsServices)
		return []string{"-queries", w.writeDNSQueries(t)}
	},
	count: func(w *world) int {
		records := 3 // of the service kubernetes
		for i := range dnsServices {
			switch i % 8 {
			case 0, 4:
				records += 4 * len(w.dnsEndpoints(i))
			case 1:
				records++
			default:
				records += 5
			}
		}
		return records
	},
	changes: []change{func(t *testing.T, ctx context.Context, w *world) []string {
		return []string{w.moveThroughRestart(t, ctx)}
	}},
}

// makeDNSServices creates the first n services, and their namespace.
func (w *world) makeDNSServices(t *testing.T, ctx context.Context, n int) {
	t.Helper()
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: dnsNamespace}}, metav1.CreateOptions{})
	check.NoError(t, err)
	inParallel(t, ctx, n, w.makeDNSService)
}

// moveThroughRestart changes pods and the first 600 services, before and after a restart of the API
// server. It returns the name of a service that it creates last.
func (w *world) moveThroughRestart(t *testing.T, ctx context.Context) (last string) {
	t.Helper()
	w.churn(t, ctx, 300)
	w.moveDNSServices(t, ctx, 0)
	w.restartAPIServer(t, ctx)
	w.churn(t, ctx, 300)
	w.moveDNSServices(t, ctx, 300)
	check.NoError(t, w.makeDNSService(ctx, lastDNSService))
	return dnsName(lastDNSService)
}

func dnsName(i int) string { return fmt.Sprintf("service-%d", i) }

// dnsEndpoints returns the endpoints of a service: addresses of the cluster's pods.
func (w *world) dnsEndpoints(i int) (endpoints []discoveryv1.Endpoint) {
	for j := range 1 + i%3 {
		pod := w.pods.Pod((i + j*7) % w.pods.Len())
		endpoint := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 128+j, i>>8, i&255)}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}}
		if i%5 == 0 {
			endpoint.Hostname = new(fmt.Sprintf("host-%d", j))
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints
}

// makeDNSService creates service i and its EndpointSlice. One of four services is headless, and one
// of eight is an alias.
func (w *world) makeDNSService(ctx context.Context, i int) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: dnsName(i), Labels: map[string]string{"app": dnsName(i)}, Annotations: map[string]string{"owner": strings.Repeat("team ", 20)}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": dnsName(i)},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}},
		},
	}
	switch i % 8 {
	case 0, 4:
		service.Spec.ClusterIP = corev1.ClusterIPNone
	case 1:
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: fmt.Sprintf("host-%d.example.org", i)}
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: dnsName(i), Labels: map[string]string{discoveryv1.LabelServiceName: dnsName(i)}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: w.dnsEndpoints(i),
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}, {Name: new("metrics"), Port: new(int32(9090))}},
	}
	_, err := w.client.CoreV1().Services(dnsNamespace).Create(ctx, service, metav1.CreateOptions{})
	if err == nil {
		_, err = w.client.DiscoveryV1().EndpointSlices(dnsNamespace).Create(ctx, slice, metav1.CreateOptions{})
	}
	return err
}

// writeDNSQueries writes queries for the services and for the pods, and returns the path of the
// file. Names that do not exist are among them.
func (w *world) writeDNSQueries(t *testing.T) string {
	t.Helper()
	const domain = ".dns.svc.cluster.local."
	var lines []string
	for i := range dnsQueries {
		of := i * 7 % (dnsServices + 100)
		name := dnsName(of) + domain
		pod := w.pods.Pod(of % w.pods.Len())
		lines = append(lines, [...]string{
			name + " A", name + " SRV", name + " AAAA", "_http._tcp." + name + " SRV",
			fmt.Sprintf("%d.%d.128.10.in-addr.arpa. PTR", of&255, of>>8),
			strings.ReplaceAll(pod.Status.PodIP, ".", "-") + "." + pod.Namespace + ".pod.cluster.local. A",
			"host-0." + name + " A", fmt.Sprintf("%d.%d.0.10.in-addr.arpa. PTR", of&255, of>>8),
		}[i%8])
	}
	path := filepath.Join(t.TempDir(), "queries")
	check.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	return path
}

// moveDNSServices changes, deletes or creates again each of 300 services and EndpointSlices.
func (w *world) moveDNSServices(t *testing.T, ctx context.Context, first int) {
	t.Helper()
	services, slices := w.client.CoreV1().Services(dnsNamespace), w.client.DiscoveryV1().EndpointSlices(dnsNamespace)
	for i := first; i < first+300; i++ {
		name := dnsName(i)
		var err error
		switch i % 6 {
		case 0:
			_, err = slices.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"add","path":"/endpoints/0/conditions","value":{"ready":false}}]`), metav1.PatchOptions{})
		case 1:
			err = services.Delete(ctx, name, metav1.DeleteOptions{})
		case 2:
			_, err = services.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"ports":[{"name":"https","port":443}]}}`), metav1.PatchOptions{})
		case 3:
			if err = services.Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
				err = slices.Delete(ctx, name, metav1.DeleteOptions{})
			}
			if err == nil {
				err = w.makeDNSService(ctx, i)
			}
		case 4:
			patch := fmt.Appendf(nil, `[{"op":"replace","path":"/endpoints/0/addresses/0","value":%q}]`, net.IPv4(10, 140, byte(i>>8), byte(i)))
			_, err = slices.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
		default:
			err = slices.Delete(ctx, name, metav1.DeleteOptions{})
		}
		check.NoError(t, err)
	}
}

// restartAPIServer kills the API server and starts it again, which ends all watches.
func (w *world) restartAPIServer(t *testing.T, ctx context.Context) {
	t.Helper()
	w.cluster.KillAPIServer()
	check.NoError(t, w.cluster.StartAPIServer(ctx))
}

// inParallel calls f with 0 to n-1, from eight goroutines.
func inParallel(t *testing.T, ctx context.Context, n int, f func(ctx context.Context, i int) error) {
	t.Helper()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error { return f(ctx, i) })
	}
	check.NoError(t, g.Wait())
}
