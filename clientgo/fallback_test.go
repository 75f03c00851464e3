package clientgo

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestAdoptFallsBack checks that Adopt returns client-go's informers unchanged if this package
// cannot read their fields, and that Err returns ErrLayout for them.
func TestAdoptFallsBack(t *testing.T) {
	defer func(was func() bool) { layoutKnown = was }(layoutKnown)
	layoutKnown = func() bool { return false }
	built := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	if got := Adopt(built); got != built || !errors.Is(Err(got), ErrLayout) {
		t.Errorf("became %T, %v", got, Err(got))
	}
}

// TestFactoriesFallBack checks the factories if this package cannot read the fields of client-go's
// informers. They must return client-go's informers, and apply the factory's options to them.
func TestFactoriesFallBack(t *testing.T) {
	defer func(was func() bool) { layoutKnown = was }(layoutKnown)
	layoutKnown = func() bool { return false }
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("two", "b", nil))
	cfg := capturing(server.Config())
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	mark := WithTransform(func(obj any) (any, error) {
		obj.(metav1.Object).SetLabels(map[string]string{"transformed": "yes"})
		return obj, nil
	})
	typed := NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), 0, WithNamespace("one"), mark)
	byResource, err := typed.ForResource(gvr)
	check.NoError(t, err)
	if byResource.Informer().GetIndexer() != typed.Core().V1().ConfigMaps().Informer().GetIndexer() {
		t.Error("two informers of one resource")
	}
	for name, inf := range map[string]cache.SharedIndexInformer{
		"typed":    byResource.Informer(),
		"dynamic":  NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0, WithNamespace("one"), mark).ForResource(gvr).Informer(),
		"metadata": NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0, WithNamespace("one"), mark).ForResource(gvr).Informer(),
	} {
		if err := Err(inf); !errors.Is(err, ErrForeignInformer) || !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %T, %v", name, inf, err)
		}
		runSynced(t, inf)
		for _, held := range inf.GetStore().List() {
			if m := held.(metav1.Object); m.GetName() != "a" || m.GetLabels()["transformed"] != "yes" {
				t.Errorf("%s: holds %v", name, held)
			}
		}
	}
}
