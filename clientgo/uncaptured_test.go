//go:build !weir_safe

package clientgo

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestInformersWithoutAKind uses informers whose example states no kind, or a wrong kind. If other
// arguments of the constructor identify the objects, the informer must capture responses. Otherwise
// it must log why it does not capture them.
func TestInformersWithoutAKind(t *testing.T) {
	server := serve(t, apiserver.Options{})
	plain := fill(t, server.Config(), configMap("one", "a", nil), configMap("one", "b", nil))
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	cfg := capturing(server.Config())
	dynamicClient, typed := dynamic.NewForConfigOrDie(cfg), kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("one")
	byHand := listWatchOf(dynamicClient.Resource(gvr))
	stated := &unstructured.Unstructured{}
	stated.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	withContext := listWatchOf(typed)
	for name, test := range map[string]struct {
		informer cache.SharedIndexInformer
		why      string // a part of the logged reason; "" if responses are captured
	}{
		"dynamic":      {Adopt(dynamicinformer.NewFilteredDynamicInformer(dynamicClient, gvr, "one", 0, cache.Indexers{}, nil).Informer()), ""},
		"metadata":     {Adopt(metadatainformer.NewFilteredMetadataInformer(metadata.NewForConfigOrDie(cfg), gvr, "one", 0, cache.Indexers{}, nil).Informer()), "kind"},
		"no-kind":      {NewSharedIndexInformer(byHand, &unstructured.Unstructured{}, 0, nil), "kind"},
		"a-kind":       {NewSharedIndexInformer(byHand, stated, 0, nil), ""},
		"a-wrong-kind": {NewSharedIndexInformer(withContext, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "core/v1", Kind: "ConfigMap"}}, 0, nil), ""},
		"no-context":   {Adopt(cache.NewSharedIndexInformer(contextless{typed}, &corev1.ConfigMap{}, 0, cache.Indexers{})), ""},
		"never":        {NewSharedIndexInformerWithOptions(byHand, &unstructured.Unstructured{}, 0, nil, Options{NoCapture: true}), "-"},
	} {
		t.Run(name, func(t *testing.T) {
			lines, captured := runLogged(t, test.informer, plain, "new-"+name), test.informer.(*informer).stats.BodyBytes.Load() > 0
			check.Equal(t, captured, (test.why == ""), "captured")
			switch said := strings.Join(lines, "\n"); {
			case test.why == "" || test.why == "-":
				check.Equal(t, said, "", "logged")
			case len(lines) != 1 || !strings.Contains(said, test.why) || !strings.Contains(said, test.informer.(*informer).name):
				t.Errorf("logged %s", said)
			}
		})
	}
}
