package programs

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/internal/testing/check"
)

// routes is the test of Traefik: the providers for Ingress, Traefik's custom resources and Gateway
// API must produce the same dynamic configuration. There are three services and three Secrets for
// each route. The first run of Traefik also writes the status of all HTTPRoutes.
var routes = observer{
	warmUp: true,
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		w.installDefinitions(t, ctx, "traefik", "github.com/traefik/traefik/v3", "docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml")
		w.installDefinitions(t, ctx, "traefik", "sigs.k8s.io/gateway-api", "config/crd/standard/*.yaml")
		g := gateways{w, servingCertificate(t)}
		_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: routeNamespace}}, metav1.CreateOptions{})
		check.NoError(t, err)
		createYAML(t, ctx, g.objects.Resource(gatewayClasses), `{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: traefik},
			spec: {controllerName: traefik.io/gateway-controller}}`)
		createYAML(t, ctx, g.in(gatewayResource), `{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: main},
			spec: {gatewayClassName: traefik, listeners: [{name: web, port: 8000, protocol: HTTP}]}}`)
		createYAML(t, ctx, g.in(middlewares), `{apiVersion: traefik.io/v1alpha1, kind: Middleware, metadata: {name: strip},
			spec: {stripPrefix: {prefixes: [/api, /v1]}}}`)
		inParallel(t, ctx, routeCount(), g.makeRoute)
		return nil
	},
	count: func(w *world) int { return routeCount() * 3 },
	changes: []change{func(t *testing.T, ctx context.Context, w *world) []string {
		g := gateways{w, servingCertificate(t)}
		g.move(t, ctx, 0)
		w.restartAPIServer(t, ctx)
		g.move(t, ctx, 60)
		check.NoError(t, g.makeRoute(ctx, routeCount()))
		last := routeName(routeCount())
		return []string{last + ".example.org", last + ".example.com", last + ".example.net"}
	}},
}

const routeNamespace = "routes"

func routeName(i int) string { return fmt.Sprintf("route-%d", i) }

// routeCount is the number of routes of each of the three providers.
func routeCount() int { return max(*podsFlag/50, 120) }

// gateways creates and changes the objects that Traefik reads.
type gateways struct {
	*world
	certificate map[string][]byte // of all Secrets that routes name
}

var (
	gatewayClasses  = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gatewayclasses"}
	gatewayResource = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
	httpRoutes      = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	ingressRoutes   = schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "ingressroutes"}
	middlewares     = schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"}
	ingresses       = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}
)

func (g gateways) in(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return g.objects.Resource(resource).Namespace(routeNamespace)
}

// makeRoute creates an Ingress, an IngressRoute and an HTTPRoute with the same number, and the
// services and Secrets that they name.
func (g gateways) makeRoute(ctx context.Context, i int) error {
	for _, prefix := range []string{"ingress", "crd", "gateway"} {
		if err := g.makeBackend(ctx, prefix, i); err != nil {
			return err
		}
	}
	for _, object := range []struct {
		resource schema.GroupVersionResource
		text     string
	}{
		{ingresses, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: %[1]s}, spec: {
			tls: [{hosts: [%[1]s.example.org], secretName: ingress-%[1]s}],
			rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: ingress-%[1]s, port: {name: http}}}}]}}]}}`},
		{ingressRoutes, `{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: %[1]s}, spec: {
			entryPoints: [web], tls: {secretName: crd-%[1]s},
			routes: [{kind: Rule, match: "Host(` + "`%[1]s.example.com`" + `)", middlewares: [{name: strip}], services: [{name: crd-%[1]s, port: http}]}]}}`},
		{httpRoutes, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: %[1]s}, spec: {
			parentRefs: [{name: main}], hostnames: [%[1]s.example.net],
			rules: [{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{name: gateway-%[1]s, port: 80, weight: 1}]}]}}`},
	} {
		if _, err := tryCreateYAML(ctx, g.in(object.resource), fmt.Sprintf(object.text, routeName(i))); err != nil {
			return err
		}
	}
	return nil
}

// makeBackend creates a service, its EndpointSlice, the Secret of its certificate, and a Secret
// that no route names.
func (g gateways) makeBackend(ctx context.Context, prefix string, i int) error {
	name := prefix + "-" + routeName(i)
	_, err := g.client.CoreV1().Services(routeNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
	for j := range 3 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 130+j, i>>8, i&255)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		})
	}
	if err == nil {
		_, err = g.client.DiscoveryV1().EndpointSlices(routeNamespace).Create(ctx, slice, metav1.CreateOptions{})
	}
	other := map[string][]byte{"release": bytes.Repeat(fmt.Appendf(nil, "%s %d, ", prefix, i), 300)}
	for name, data := range map[string]map[string][]byte{name: g.certificate, "other-" + name: other} {
		if err == nil {
			_, err = g.client.CoreV1().Secrets(routeNamespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		}
	}
	return err
}

// move changes or deletes objects of 60 routes.
func (g gateways) move(t *testing.T, ctx context.Context, first int) {
	t.Helper()
	merge := func(resource schema.GroupVersionResource, name, patch string) error {
		_, err := g.in(resource).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	for i := first; i < first+60; i++ {
		name := routeName(i)
		var err error
		switch i % 6 {
		case 0:
			err = g.in(ingresses).Delete(ctx, name, metav1.DeleteOptions{})
		case 1:
			err = merge(ingressRoutes, name, `{"spec":{"routes":[{"kind":"Rule","match":"PathPrefix(`+"`/"+name+"`"+`)","services":[{"name":"crd-`+name+`","port":"http"}]}]}}`)
		case 2:
			err = merge(httpRoutes, name, `{"spec":{"hostnames":["moved-`+name+`.example.net"]}}`)
		case 3:
			patch := fmt.Appendf(nil, `[{"op":"replace","path":"/endpoints/0/addresses/0","value":"10.140.0.%d"}]`, i)
			_, err = g.client.DiscoveryV1().EndpointSlices(routeNamespace).Patch(ctx, "gateway-"+name, types.JSONPatchType, patch, metav1.PatchOptions{})
		case 4:
			if err = g.client.CoreV1().Services(routeNamespace).Delete(ctx, "crd-"+name, metav1.DeleteOptions{}); err == nil {
				err = g.in(httpRoutes).Delete(ctx, name, metav1.DeleteOptions{})
			}
		default:
			patch := fmt.Sprintf(`{"data":{"tls.crt":%q}}`, base64.StdEncoding.EncodeToString(append(g.certificate["tls.crt"], '\n')))
			_, err = g.client.CoreV1().Secrets(routeNamespace).Patch(ctx, "ingress-"+name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
		check.NoError(t, err)
	}
}

// servingCertificate returns the data of a Secret with a self-signed certificate.
func servingCertificate(t *testing.T) map[string][]byte {
	t.Helper()
	dir, data := t.TempDir(), map[string][]byte{}
	writeServingCertificate(t, dir)
	for _, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		check.NoError(t, err)
		data[name] = raw
	}
	return data
}
