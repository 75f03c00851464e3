package weir_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// jsonOnly returns cfg for a server that does not know protobuf, like many aggregated ones.
func jsonOnly(cfg *rest.Config, accept string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Accept", accept)
			return next.RoundTrip(r)
		})
	})
	return cfg
}

func TestServerThatKnowsOnlyJSON(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"app": "web"}}, Data: map[string]string{"k": "v"}}
	if _, err := client.ConfigMaps("d").Create(ctx, m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inf, _ := start[*corev1.ConfigMap](t, ctx, jsonOnly(server.Config(), "application/json"), weir.Options{
		DropFields: []string{"metadata.managedFields"}, Indexes: map[string]weir.Index{"app": weir.ByLabel("app")},
	})
	meta, _ := start[*metav1.PartialObjectMetadata](t, ctx, jsonOnly(server.Config(), "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), weir.Options{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	})
	for _, wait := range []func() error{func() error { return inf.WaitForSync(ctx) }, func() error { return meta.WaitForSync(ctx) }} {
		check.NoError(t, wait())
	}
	rv := label(t, ctx, client, "d", "m", "changed")
	check.NoError(t, inf.WaitForResourceVersion(ctx, rv))
	check.NoError(t, meta.WaitForResourceVersion(ctx, rv))
	got, err := inf.Get("d/m")
	if err != nil || got.Data["k"] != "v" || got.Labels["initial"] != "changed" || inf.Err() != nil {
		t.Errorf("%+v, %v, %v", got, err, inf.Err())
	}
	head, err := meta.Get("d/m")
	if err != nil || head.Labels["initial"] != "changed" {
		t.Errorf("%+v, %v", head, err)
	}
	for o, err := range inf.By("app", "web") {
		t.Errorf("%v %v is in the index of a label that it has no more", o, err)
	}
}
