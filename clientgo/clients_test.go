//go:build !weir_safe

package clientgo

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
)

// filteredFactories are the factories that take a client, a namespace and a tweak: client-go's, or
// Weir's with the same arguments.
type filteredFactories struct {
	typed    func(kubernetes.Interface, string, func(*metav1.ListOptions)) informers.SharedInformerFactory
	metadata func(metadata.Interface, string, func(*metav1.ListOptions)) metadatainformer.SharedInformerFactory
	dynamic  func(dynamic.Interface, string, func(*metav1.ListOptions)) dynamicinformer.DynamicSharedInformerFactory
}

var bothFiltered = map[string]filteredFactories{
	"client-go": {
		func(c kubernetes.Interface, namespace string, tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak))
		},
		func(c metadata.Interface, namespace string, tweak func(*metav1.ListOptions)) metadatainformer.SharedInformerFactory {
			return metadatainformer.NewFilteredSharedInformerFactory(c, 0, namespace, tweak)
		},
		func(c dynamic.Interface, namespace string, tweak func(*metav1.ListOptions)) dynamicinformer.DynamicSharedInformerFactory {
			return dynamicinformer.NewFilteredDynamicSharedInformerFactory(c, 0, namespace, tweak)
		},
	},
	"weir": {
		func(c kubernetes.Interface, namespace string, tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
			return NewFilteredSharedInformerFactory(c, 0, namespace, tweak)
		},
		func(c metadata.Interface, namespace string, tweak func(*metav1.ListOptions)) metadatainformer.SharedInformerFactory {
			return NewFilteredMetadataSharedInformerFactory(c, 0, namespace, tweak)
		},
		func(c dynamic.Interface, namespace string, tweak func(*metav1.ListOptions)) dynamicinformer.DynamicSharedInformerFactory {
			return NewFilteredDynamicSharedInformerFactory(c, 0, namespace, tweak)
		},
	},
}

// TestFilteredFactoriesOfClients checks that factories of existing clients store the objects that
// their namespace and tweak select, and that Weir's return Weir's informers.
func TestFilteredFactoriesOfClients(t *testing.T) {
	server := serve(t, apiserver.Options{})
	held := map[string]string{"held": "yes"}
	fill(t, server.Config(), configMap("one", "a", held), configMap("one", "b", nil), configMap("two", "c", held))
	cfg := capturing(server.Config())
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = "held=yes" }
	type byResource interface {
		ForResource(schema.GroupVersionResource) informers.GenericInformer
	}
	for name, factories := range bothFiltered {
		t.Run(name, func(t *testing.T) {
			typed := factories.typed(kubernetes.NewForConfigOrDie(cfg), "one", tweak)
			infs := map[string]cache.SharedIndexInformer{"typed": typed.Core().V1().ConfigMaps().Informer()}
			for client, f := range map[string]byResource{
				"metadata": factories.metadata(metadata.NewForConfigOrDie(cfg), "one", tweak),
				"dynamic":  factories.dynamic(dynamic.NewForConfigOrDie(cfg), "one", tweak),
			} {
				infs[client] = f.ForResource(gvr).Informer()
			}
			for client, inf := range infs {
				if _, err := informerOf(inf); (err == nil) != (name == "weir") {
					t.Errorf("%s: informer of type %T", client, inf)
				}
				run(t, inf)
				synced(t, inf.HasSyncedChecker())
				if keys := inf.GetStore().ListKeys(); !slices.Equal(keys, []string{"one/a"}) {
					t.Errorf("%s: holds %v", client, keys)
				}
			}
		})
	}
}

// TestAdopt checks that Adopt replaces client-go's unused informers, from any constructor, and no
// others.
func TestAdopt(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil))
	f := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(capturing(server.Config())), time.Hour)
	inf := Adopt(f.Core().V1().ConfigMaps().Informer())
	if i, err := informerOf(inf); err != nil {
		t.Error(err)
	} else if i.defaultResync != time.Hour {
		t.Errorf("the resync period is %s", i.defaultResync)
	}
	run(t, inf)
	synced(t, inf.HasSyncedChecker())
	if keys := inf.GetStore().ListKeys(); !slices.Equal(keys, []string{"one/a"}) {
		t.Errorf("holds %v", keys)
	}
	if second := Adopt(inf); second != inf {
		t.Errorf("ours became another: %T", second)
	}
	used := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	if _, err := used.AddEventHandler(newRecorder()); err != nil {
		t.Fatal(err)
	}
	if got := Adopt(used); got != used {
		t.Errorf("an informer with a handler became %T", got)
	}
}
