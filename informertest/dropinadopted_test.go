//go:build !weir_safe

package informertest_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// fromFactory returns the pod informer of Weir's factory. If the options have a ListerWatcher,
// fromFactory calls the factory's InformerFor, with a function that creates an informer of this
// ListerWatcher.
func fromFactory(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	cfg.ContentType = runtime.ContentTypeProtobuf
	if o.ListerWatcher != nil {
		clientgo.Wrap(cfg)
	}
	f := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), o.Resync)
	if o.ListerWatcher == nil {
		return asDropIn(f.Core().V1().Pods().Informer(), o)
	}
	lw, err := o.ListerWatcher(cfg, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("drop-in: %w", err)
	}
	return asDropIn(f.InformerFor(&corev1.Pod{}, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(lw, &corev1.Pod{}, resync, cache.Indexers{})
	}), o)
}

// adopted returns the result of clientgo.Adopt for an informer of client-go's factory.
func adopted(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	clientgo.Wrap(cfg)
	if o.ListerWatcher != nil {
		lw, err := o.ListerWatcher(cfg, &corev1.Pod{})
		if err != nil {
			return nil, fmt.Errorf("drop-in: %w", err)
		}
		return asDropIn(clientgo.Adopt(cache.NewSharedIndexInformer(lw, &corev1.Pod{}, o.Resync, cache.Indexers{})), o)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("drop-in: %w", err)
	}
	return asDropIn(clientgo.Adopt(informers.NewSharedInformerFactory(client, o.Resync).Core().V1().Pods().Informer()), o)
}

func TestDropInFactory(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{Name: "weir's factory, protobuf", New: fromFactory, Fails: dropInFails})
}

func TestDropInAdopted(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{Name: "client-go's factory, adopted", New: adopted, Fails: dropInFails})
}

func TestDropInDynamic(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{Name: "weir as a drop-in, unstructured", New: dropInDynamic, Fails: with(dropInFails, dynamicFails)})
}

func TestDropInMetadata(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{Name: "weir as a drop-in, metadata", New: dropInMetadata, Fails: with(dropInFails, metadataFails)})
}
