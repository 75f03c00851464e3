package clientgo

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestFactoriesByResource checks the dynamic and the metadata factory of a config.
func TestFactoriesByResource(t *testing.T) {
	server := serve(t, apiserver.Options{Resources: []apiserver.Resource{{
		GroupVersionResource: schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true,
	}}})
	client := fill(t, server.Config(), configMap("one", "a", map[string]string{"v": "1"}), configMap("two", "b", map[string]string{"v": "1"}))
	type common interface {
		Start(<-chan struct{})
		ForResource(schema.GroupVersionResource) informers.GenericInformer
		WaitForCacheSync(<-chan struct{}) map[schema.GroupVersionResource]bool
		Shutdown()
	}
	dynamicFactory, err := NewDynamicSharedInformerFactory(server.Config(), 0)
	check.NoError(t, err)
	metadataFactory, err := NewMetadataSharedInformerFactory(server.Config(), 0, WithNamespace("one"))
	check.NoError(t, err)
	for name, test := range map[string]struct {
		factory common
		want    int
	}{"dynamic": {dynamicFactory, 2}, "metadata": {metadataFactory, 1}} {
		t.Run(name, func(t *testing.T) {
			stop := make(chan struct{})
			gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
			generic := test.factory.ForResource(gvr)
			if generic.Informer() != test.factory.ForResource(gvr).Informer() {
				t.Error("two informers of one resource")
			}
			calls := newRecorder()
			if _, err := generic.Informer().AddEventHandler(calls); err != nil {
				t.Fatal(err)
			}
			test.factory.Start(stop)
			if !test.factory.WaitForCacheSync(stop)[gvr] {
				t.Fatal("not synced")
			}
			all, err := generic.Lister().List(labels.Everything())
			if err != nil || len(all) != test.want {
				t.Errorf("%v, %v", all, err)
			}
			one, err := generic.Lister().ByNamespace("one").Get("a")
			check.NoError(t, err)
			if m, _ := meta.Accessor(one); m.GetLabels()["v"] != "1" || m.GetUID() == "" {
				t.Errorf("%v", one)
			}
			if name == "dynamic" && one.GetObjectKind().GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
				t.Errorf("kind %v", one.GetObjectKind().GroupVersionKind())
			}
			made := configMap("one", name, map[string]string{"v": "2"})
			if made, err = client.CoreV1().ConfigMaps("one").Create(context.Background(), made, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			calls.wait(t, "add "+show(made))
			check.NoError(t, client.CoreV1().ConfigMaps("one").Delete(context.Background(), name, metav1.DeleteOptions{}))
			calls.until(t, "the deletion", func(lines []string) bool {
				return strings.HasPrefix(lines[len(lines)-1], "delete one/"+name+"@") && !strings.Contains(lines[len(lines)-1], "@"+made.ResourceVersion+" ")
			})
			close(stop)
			test.factory.Shutdown()
		})
	}
}
