package informertest_test

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// podOf returns the pod of an informer's object. An unstructured object that is not a pod becomes a
// pod with only metadata.
func podOf(obj any) *corev1.Pod {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return informertest.PodOf(m)
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj.(*corev1.Pod)
	}
	p := &corev1.Pod{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p) != nil {
		p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
		}}
	}
	return p
}

// transformOf returns a transform of an informer of pods, typed, unstructured or of metadata.
func transformOf(f func(*corev1.Pod)) cache.TransformFunc {
	return func(obj any) (any, error) {
		p := podOf(obj)
		f(p)
		if was, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m := informertest.MetadataOf(p)
			m.TypeMeta = was.TypeMeta
			return m, nil
		}
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return p, nil
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			return nil, err
		}
		gvk := u.GroupVersionKind()
		u = &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
}

// untypedPod and podMetadata are examples of informers of a ListerWatcher.
func untypedPod() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
}

func podMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
}

// dropInOf is Weir's informer of the given ListerWatcher.
func dropInOf(cfg *rest.Config, example runtime.Object, o informertest.Options) (informertest.Informer, error) {
	clientgo.Wrap(cfg)
	lw, err := o.ListerWatcher(cfg, example)
	if err != nil {
		return nil, fmt.Errorf("drop-in: %w", err)
	}
	return asDropIn(clientgo.NewSharedIndexInformer(lw, example, o.Resync, cache.Indexers{}), o)
}

// clientGoOf is client-go's.
func clientGoOf(cfg *rest.Config, example runtime.Object, o informertest.Options) (informertest.Informer, error) {
	lw, err := o.ListerWatcher(cfg, example)
	if err != nil {
		return nil, fmt.Errorf("client-go: %w", err)
	}
	return newSharedInformer(cache.NewSharedIndexInformer(lw, example, o.Resync, cache.Indexers{}), o)
}

// listOnlyDynamic is a client that keeps client-go from requesting initial events, like listOnly.
type listOnlyDynamic struct{ dynamic.Interface }

func (listOnlyDynamic) IsWatchListSemanticsUnSupported() bool { return true }

// clientGoDynamic is client-go's informer of unstructured objects.
func clientGoDynamic(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	if o.ListerWatcher != nil {
		return clientGoOf(cfg, untypedPod(), o)
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client-go: %w", err)
	}
	inf := dynamicinformer.NewFilteredDynamicInformer(listOnlyDynamic{client}, podsResource, metav1.NamespaceAll, o.Resync, cache.Indexers{}, nil)
	return newSharedInformer(inf.Informer(), o)
}

// dropInDynamic is the informer of Weir's dynamic factory.
func dropInDynamic(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	if o.ListerWatcher != nil {
		return dropInOf(cfg, untypedPod(), o)
	}
	f, err := clientgo.NewDynamicSharedInformerFactory(cfg, o.Resync)
	if err != nil {
		return nil, fmt.Errorf("drop-in: %w", err)
	}
	return asDropIn(f.ForResource(podsResource).Informer(), o)
}

// anyJSON is why unstructured informers fail stories of objects that cannot be decoded.
const anyJSON = "whatever is JSON can be decoded as an unstructured object"

var dynamicFails = map[string]string{
	"UndecodableThenGood":    anyJSON,
	"UndecodableThenDeleted": anyJSON,
	"UndecodableIsAlone":     anyJSON,
}

func TestClientGoDynamic(t *testing.T) {
	testenv.SkipUnderRace(t)
	fails := maps.Clone(clientGoFails)
	maps.Copy(fails, dynamicFails)
	fails["GarbledEvent"] = "what has a number for its metadata is held under an empty key"
	informertest.Run(t, informertest.Rig{Name: "client-go 0.37, LIST, unstructured", New: clientGoDynamic, Fails: fails})
}

// dropInMetadata is Weir's informer of metadata.
func dropInMetadata(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	if o.ListerWatcher != nil {
		return dropInOf(cfg, podMetadata(), o)
	}
	f, err := clientgo.NewMetadataSharedInformerFactory(cfg, o.Resync)
	if err != nil {
		return nil, fmt.Errorf("drop-in: %w", err)
	}
	return asDropIn(f.ForResource(podsResource).Informer(), o)
}

// clientGoMetadata is client-go's informer of metadata.
func clientGoMetadata(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	if o.ListerWatcher != nil {
		return clientGoOf(cfg, podMetadata(), o)
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client-go: %w", err)
	}
	inf := metadatainformer.NewFilteredMetadataInformer(listOnlyMetadata{client}, podsResource, metav1.NamespaceAll, o.Resync, cache.Indexers{}, nil)
	return newSharedInformer(inf.Informer(), o)
}

// listOnlyMetadata is a client that keeps client-go from requesting initial events.
type listOnlyMetadata struct{ metadata.Interface }

func (listOnlyMetadata) IsWatchListSemanticsUnSupported() bool { return true }

// anyMetadata is why informers of metadata fail stories of objects that cannot be decoded.
const anyMetadata = "what cannot be decoded is not in the metadata"

var metadataFails = map[string]string{
	"UndecodableThenGood":    anyMetadata,
	"UndecodableThenDeleted": anyMetadata,
	"UndecodableIsAlone":     anyMetadata,
}

func TestClientGoMetadata(t *testing.T) {
	testenv.SkipUnderRace(t)
	fails := maps.Clone(clientGoFails)
	maps.Copy(fails, metadataFails)
	informertest.Run(t, informertest.Rig{Name: "client-go 0.37, LIST, metadata", New: clientGoMetadata, Fails: fails})
}
