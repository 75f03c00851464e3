package proxy

import (
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy"
)

// ageNoter notes whether the last response is the proxy's own, which has an age.
type ageNoter struct {
	http.RoundTripper
	own bool
}

// WrappedRoundTripper lets idle connections be closed.
func (n *ageNoter) WrappedRoundTripper() http.RoundTripper { return n.RoundTripper }

func (n *ageNoter) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(r)
	n.own = err == nil && resp.Header.Get("Age") != ""
	return resp, err
}

// TestPagesElsewhere: kube-apiserver continues a list that the proxy began, of all namespaces, of
// one, and of a resource without namespaces, as the proxy itself would.
func TestPagesElsewhere(t *testing.T) {
	ctx := begin(t)
	direct := dynamicFor(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods", "clusterroles.rbac.authorization.k8s.io"}})
	cfg := through(t, s, shared.Config())
	noter := &ageNoter{}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { noter.RoundTripper = rt; return noter })
	client, err := dynamic.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	all, err := direct.Resource(podResource).List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	for what, of := range map[string]func(dynamic.Interface) dynamic.ResourceInterface{
		"all namespaces": func(c dynamic.Interface) dynamic.ResourceInterface { return c.Resource(podResource) },
		"one namespace": func(c dynamic.Interface) dynamic.ResourceInterface { // a large one
			return c.Resource(podResource).Namespace(all.Items[len(all.Items)/2].GetNamespace())
		},
		"no namespaces": func(c dynamic.Interface) dynamic.ResourceInterface { return c.Resource(roles) },
	} {
		whole, err := of(direct).List(ctx, metav1.ListOptions{})
		check.NoError(t, err)
		// With a resourceVersion that the proxy has, it answers a page of any size.
		limit := int64(len(whole.Items)/2 + 1)
		now, err := of(client).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		check.NoError(t, err)
		first, err := of(client).List(ctx, metav1.ListOptions{Limit: limit, ResourceVersion: now.GetResourceVersion()})
		check.NoError(t, err)
		if !noter.own || first.GetContinue() == "" {
			t.Fatalf("%s: the first page is the proxy's: %t, and there are more: %q", what, noter.own, first.GetContinue())
		}
		rest, err := of(direct).List(ctx, metav1.ListOptions{Limit: limit, Continue: first.GetContinue()})
		if err != nil {
			t.Errorf("%s: the second page from kube-apiserver: %v", what, err)
			continue
		}
		if got, want := namesOf(first, rest), namesOf(whole); !slices.Equal(got, want) {
			t.Errorf("%s: %d objects of two pages, want %d, or others", what, len(got), len(want))
		}
		if first.GetResourceVersion() != rest.GetResourceVersion() {
			t.Errorf("%s: pages of %s and %s", what, first.GetResourceVersion(), rest.GetResourceVersion())
		}
	}
}

// namesOf returns the namespaces and names of the objects of lists.
func namesOf(lists ...*unstructured.UnstructuredList) (names []string) {
	for _, l := range lists {
		for i := range l.Items {
			names = append(names, l.Items[i].GetNamespace()+"/"+l.Items[i].GetName())
		}
	}
	return names
}
