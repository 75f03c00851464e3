package informertest_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// lister returns a ListWatch of all pods for a client config.
type lister func(cfg *rest.Config) (*cache.ListWatch, error)

func wholeClientset(cfg *rest.Config) (*cache.ListWatch, error) {
	lw, _, err := podLists(cfg)
	return lw, err
}

// podsOnly returns a ListWatch of a client whose scheme has only pods, like the clientsets that are
// generated for custom resources.
func podsOnly(cfg *rest.Config) (*cache.ListWatch, error) {
	podScheme := runtime.NewScheme()
	podScheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Pod{}, &corev1.PodList{}, &metav1.WatchEvent{}, &metav1.Status{})
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(podScheme).WithoutConversion()
	client, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return cache.NewListWatchFromClient(client, "pods", "", fields.Everything()), nil
}

// dropIn returns a function for Rig.New that builds Weir's informer with client-go's interface. If
// wrapped is true, the informer reads the bodies of answers itself. Otherwise it uses the objects
// that the client has decoded.
func dropIn(wrapped bool, contentType string, list lister) func(*rest.Config, informertest.Options) (informertest.Informer, error) {
	return func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
		cfg.ContentType = contentType
		if wrapped {
			clientgo.Wrap(cfg)
		}
		lw, err := given(o, cfg, &corev1.Pod{}, func() (cache.ListerWatcher, error) { return list(cfg) })
		if err != nil {
			return nil, fmt.Errorf("drop-in: %w", err)
		}
		return asDropIn(clientgo.NewSharedIndexInformer(lw, &corev1.Pod{}, o.Resync, cache.Indexers{}), o)
	}
}

func asDropIn(inf cache.SharedIndexInformer, o informertest.Options) (informertest.Informer, error) {
	shared, err := newSharedInformer(inf, o)
	if err != nil {
		return nil, err
	}
	return dropInInformer{shared}, nil
}

// dropInInformer adds to sharedInformer the functions of package clientgo that client-go's
// interface lacks.
type dropInInformer struct{ *sharedInformer }

func (d dropInInformer) Err() error { return clientgo.Err(d.SharedIndexInformer) }

func (d dropInInformer) WaitForSync(ctx context.Context) error {
	return clientgo.WaitForSync(ctx, d.SharedIndexInformer)
}

// dropInFails has the story that the drop-in fails on purpose, because users of client-go's
// interface expect client-go's behavior.
var dropInFails = map[string]string{
	"PanickingHandler": "as with client-go a panic in a handler ends the process, unless utilruntime.ReallyCrash is false",
}

// unwrappedFails has further stories that the drop-in fails if clientgo.Wrap was not called for the
// config. The drop-in can then use only the results of List and Watch.
var unwrappedFails = map[string]string{
	"HangingRequest":           "the request is the ListerWatcher's, and has no deadline",
	"StalledList":              "the list is the ListerWatcher's, and has no deadline",
	"StalledHead":              "the list is the ListerWatcher's, and has no deadline",
	"RelistStoresNothingTwice": "List returns the whole list",
	"UndecodableIsAlone":       "the ListerWatcher's client decodes the whole list, or fails",
}

func TestDropIn(t *testing.T) {
	informertest.Run(t, informertest.Rig{
		Name:  "weir as a drop-in, protobuf",
		New:   dropIn(true, runtime.ContentTypeProtobuf, wholeClientset),
		Fails: dropInFails,
	})
}

func TestDropInJSON(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{
		Name:  "weir as a drop-in, JSON, a client of few types",
		New:   dropIn(true, runtime.ContentTypeJSON, podsOnly),
		Fails: dropInFails,
	})
}

func TestDropInUnwrapped(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{
		Name:  "weir as a drop-in, transport not wrapped",
		New:   dropIn(false, runtime.ContentTypeProtobuf, wholeClientset),
		Fails: with(dropInFails, unwrappedFails),
	})
}
