package informertest_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var podsResource = corev1.SchemeGroupVersion.WithResource("pods")

// podOf returns the pod that an informer's object represents. An unstructured object that cannot be
// converted to a pod becomes a pod with only metadata.
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

// transformOf converts f to a transform for informers of typed, unstructured or metadata pods.
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

// untypedPod and podMetadata return example objects for informers of a ListerWatcher.
func untypedPod() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
}

func podMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
}

// dropInOf returns Weir's drop-in informer of the ListerWatcher that the options create.
func dropInOf(cfg *rest.Config, example runtime.Object, o informertest.Options) (informertest.Informer, error) {
	clientgo.Wrap(cfg)
	lw, err := o.ListerWatcher(cfg, example)
	if err != nil {
		return nil, fmt.Errorf("drop-in: %w", err)
	}
	return asDropIn(clientgo.NewSharedIndexInformer(lw, example, o.Resync, cache.Indexers{}), o)
}

// clientGoOf returns client-go's informer of the ListerWatcher that the options create.
func clientGoOf(cfg *rest.Config, example runtime.Object, o informertest.Options) (informertest.Informer, error) {
	lw, err := o.ListerWatcher(cfg, example)
	if err != nil {
		return nil, fmt.Errorf("client-go: %w", err)
	}
	return newSharedInformer(cache.NewSharedIndexInformer(lw, example, o.Resync, cache.Indexers{}), o)
}

// untyped is a dynamic or a metadata factory.
type untyped interface {
	ForResource(schema.GroupVersionResource) informers.GenericInformer
}

// dropInUntyped returns a function for Rig.New that builds informers of Weir's dynamic or metadata
// factory.
func dropInUntyped[C any, F untyped](example runtime.Object, connect func(*rest.Config) (C, error), factory func(C, time.Duration, ...clientgo.Option) F) maker {
	return func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
		if o.ListerWatcher != nil {
			return dropInOf(cfg, example, o)
		}
		client, err := connect(cfg)
		if err != nil {
			return nil, fmt.Errorf("drop-in: %w", err)
		}
		return asDropIn(factory(client, o.Resync).ForResource(podsResource).Informer(), o)
	}
}

var (
	dropInDynamic  = dropInUntyped(untypedPod(), func(cfg *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(cfg) }, clientgo.NewDynamicSharedInformerFactory)
	dropInMetadata = dropInUntyped(podMetadata(), metadata.NewForConfig, clientgo.NewMetadataSharedInformerFactory)
)

// clientGoUntyped returns a function for Rig.New that builds client-go's informers of a dynamic or
// metadata client.
func clientGoUntyped[C any](example runtime.Object, connect func(*rest.Config) (C, error), informer func(C, time.Duration) informers.GenericInformer) maker {
	return func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
		if o.ListerWatcher != nil {
			return clientGoOf(cfg, example, o)
		}
		client, err := connect(cfg)
		if err != nil {
			return nil, fmt.Errorf("client-go: %w", err)
		}
		return newSharedInformer(informer(client, o.Resync).Informer(), o)
	}
}

// listOnlyDynamic and listOnlyMetadata are clients with which client-go sends LISTs instead of
// requesting initial events, like listOnly.
type (
	listOnlyDynamic  struct{ dynamic.Interface }
	listOnlyMetadata struct{ metadata.Interface }
)

func (listOnlyDynamic) IsWatchListSemanticsUnSupported() bool  { return true }
func (listOnlyMetadata) IsWatchListSemanticsUnSupported() bool { return true }

var (
	clientGoDynamic = clientGoUntyped(untypedPod(), dynamic.NewForConfig, func(c *dynamic.DynamicClient, resync time.Duration) informers.GenericInformer {
		return dynamicinformer.NewFilteredDynamicInformer(listOnlyDynamic{c}, podsResource, metav1.NamespaceAll, resync, cache.Indexers{}, nil)
	})
	clientGoMetadata = clientGoUntyped(podMetadata(), metadata.NewForConfig, func(c metadata.Interface, resync time.Duration) informers.GenericInformer {
		return metadatainformer.NewFilteredMetadataInformer(listOnlyMetadata{c}, podsResource, metav1.NamespaceAll, resync, cache.Indexers{}, nil)
	})
)

// decodes returns the names of the stories about objects that cannot be decoded, each with the
// reason in why. Informers of unstructured or metadata objects fail these stories, because they can
// decode the spoiled objects.
func decodes(why string) map[string]string {
	return map[string]string{"UndecodableThenGood": why, "UndecodableThenDeleted": why, "UndecodableIsAlone": why}
}

var (
	dynamicFails  = decodes("any JSON can be decoded as an unstructured object")
	metadataFails = decodes("what cannot be decoded is not in the metadata")
)

func with(fails ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, f := range fails {
		maps.Copy(all, f)
	}
	return all
}

func TestClientGoDynamic(t *testing.T) {
	testenv.SkipUnderRace(t)
	garbled := map[string]string{"GarbledEvent": "what has a number for its metadata is held under an empty key"}
	informertest.Run(t, informertest.Rig{Name: "client-go 0.37, LIST, unstructured", New: clientGoDynamic, Fails: with(clientGoFails, dynamicFails, garbled)})
}

func TestClientGoMetadata(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{Name: "client-go 0.37, LIST, metadata", New: clientGoMetadata, Fails: with(clientGoFails, metadataFails)})
}
