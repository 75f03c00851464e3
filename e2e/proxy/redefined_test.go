package proxy

import (
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// TestRedefined gives a field of a custom resource a default value. kube-apiserver's answers then
// contain the default, although no object gets a new resourceVersion. The test waits until the
// proxy's answers from its cache contain the default.
func TestRedefined(t *testing.T) {
	ctx := begin(t)
	direct := dynamicFor(t)
	makeNamespace(t, ctx, direct)
	define(t, ctx, direct)
	s := start(t, ctx, proxy.Options{Resources: []string{"widgets." + widgetGroup}})
	cfg := through(t, s, shared.Config())
	client, err := dynamic.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgetResource.GroupVersion().String(), "kind": "Widget",
		"metadata": map[string]any{"name": "plain"}, "spec": map[string]any{"color": "red"},
	}}
	made, err := direct.Resource(widgetResource).Namespace(semanticsNamespace).Create(ctx, object, metav1.CreateOptions{})
	check.NoError(t, err)
	of := client.Resource(widgetResource).Namespace(semanticsNamespace)
	testenv.Eventually(t, ctx, "the proxy has it", func() bool {
		_, err := of.Get(ctx, "plain", metav1.GetOptions{ResourceVersion: made.GetResourceVersion()})
		return err == nil
	})
	patch := []byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default","value":7}]`)
	if _, err := direct.Resource(definitions).Patch(ctx, "widgets."+widgetGroup, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	get := cluster.HTTPClient(t, cfg)
	testenv.Eventually(t, ctx, "the proxy itself tells the default", func() bool {
		resp, err := get.Get(cfg.Host + "/apis/" + widgetGroup + "/v1/namespaces/" + semanticsNamespace + "/widgets/plain?resourceVersion=0")
		check.NoError(t, err)
		defer resp.Body.Close()
		var now unstructured.Unstructured
		raw, err := io.ReadAll(resp.Body)
		if err != nil || now.UnmarshalJSON(raw) != nil || resp.Header.Get("Age") == "" {
			return false // the proxy forwarded the request while it loads the resource again
		}
		size, _, _ := unstructured.NestedInt64(now.Object, "spec", "size")
		if now.GetResourceVersion() != made.GetResourceVersion() {
			t.Fatalf("the object has changed: %v", now.Object)
		}
		return size == 7
	})
}

// TestDeletedDefinition deletes a CustomResourceDefinition. It waits until kube-apiserver answers
// 404 to a LIST, and then until the proxy does. It logs both times.
func TestDeletedDefinition(t *testing.T) {
	ctx := begin(t)
	direct := dynamicFor(t)
	define(t, ctx, direct)
	s := start(t, ctx, proxy.Options{Resources: []string{"widgets." + widgetGroup}})
	cfg := through(t, s, shared.Config())
	client, err := dynamic.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	missing := func(c dynamic.Interface) bool {
		_, err := c.Resource(widgetResource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return apierrors.IsNotFound(err)
	}
	if missing(client) {
		t.Fatal("it is not served")
	}
	check.NoError(t, direct.Resource(definitions).Delete(ctx, "widgets."+widgetGroup, metav1.DeleteOptions{}))
	deleted := time.Now()
	testenv.Eventually(t, ctx, "kube-apiserver answers 404", func() bool { return missing(direct) })
	own := time.Since(deleted)
	testenv.Eventually(t, ctx, "the proxy answers 404", func() bool { return missing(client) })
	t.Logf("kube-apiserver after %v, the proxy after %v", own, time.Since(deleted))
}
