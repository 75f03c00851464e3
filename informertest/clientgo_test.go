package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// podLists returns a ListWatch of all pods and its client, like those of generated informers.
func podLists(cfg *rest.Config) (*cache.ListWatch, kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	return cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", fields.Everything()), client, nil
}

// given returns the result of o.ListerWatcher for the example, or the result of own if
// o.ListerWatcher is nil.
func given(o informertest.Options, cfg *rest.Config, example runtime.Object, own func() (cache.ListerWatcher, error)) (cache.ListerWatcher, error) {
	if o.ListerWatcher == nil {
		return own()
	}
	return o.ListerWatcher(cfg, example)
}

// sharedInformer adapts a client-go SharedIndexInformer to the suite.
type sharedInformer struct {
	cache.SharedIndexInformer

	mu  sync.Mutex
	err error
}

func newSharedInformer(inf cache.SharedIndexInformer, o informertest.Options) (*sharedInformer, error) {
	s := &sharedInformer{SharedIndexInformer: inf}
	for name, f := range o.Indexes {
		if err := s.AddIndex(name, f); err != nil {
			return nil, err
		}
	}
	if o.Transform != nil {
		if err := inf.SetTransform(transformOf(o.Transform)); err != nil {
			return nil, err
		}
	}
	// client-go reports an error, but does not report that an error has ended.
	return s, inf.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = err
	})
}

func (s *sharedInformer) Run(ctx context.Context) { s.RunWithContext(ctx) }

func (s *sharedInformer) Handle(h informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	handler := cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if h.Added != nil {
				h.Added(podOf(obj), initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			if h.Updated != nil {
				h.Updated(podOf(old), podOf(obj))
			}
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if h.Deleted != nil {
				h.Deleted(podOf(obj))
			}
		},
	}
	var reg cache.ResourceEventHandlerRegistration
	var err error
	if o.Resync > 0 {
		reg, err = s.AddEventHandlerWithResyncPeriod(handler, o.Resync)
	} else {
		reg, err = s.AddEventHandler(handler)
	}
	if err != nil {
		return nil, err
	}
	return &sharedInformerRegistration{reg, s}, nil
}

type sharedInformerRegistration struct {
	cache.ResourceEventHandlerRegistration
	informer *sharedInformer
}

func (r *sharedInformerRegistration) Remove() error {
	return r.informer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
}

// errNotSynced is the error of WaitForSync, because cache.WaitForCacheSync returns no error.
var errNotSynced = errors.New("timed out waiting for the caches to sync")

func (s *sharedInformer) WaitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), s.HasSynced) {
		return errNotSynced
	}
	return nil
}

func (s *sharedInformer) ResourceVersions() map[string]string {
	rvs := map[string]string{}
	for _, obj := range s.GetStore().List() {
		p := obj.(metav1.Object)
		rvs[p.GetNamespace()+"/"+p.GetName()] = p.GetResourceVersion()
	}
	return rvs
}

func (s *sharedInformer) Get(key string) (*corev1.Pod, bool) {
	obj, ok, err := s.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil, false
	}
	return podOf(obj), true
}

func (s *sharedInformer) AddIndex(name string, f informertest.IndexFunc) error {
	return s.AddIndexers(cache.Indexers{name: func(obj any) ([]string, error) { return f(podOf(obj)), nil }})
}

func (s *sharedInformer) ByIndex(name, value string) ([]string, error) {
	return s.GetIndexer().IndexKeys(name, value)
}

func (s *sharedInformer) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// listOnly is a ListerWatcher with which client-go sends LISTs instead of requesting initial
// events.
type listOnly struct{ *cache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// clientGo returns a function for Rig.New that builds client-go's informer. If list is true, the
// informer sends LISTs; otherwise it requests initial events.
func clientGo(list bool, contentType string) func(*rest.Config, informertest.Options) (informertest.Informer, error) {
	return func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
		cfg.ContentType = contentType
		source, err := given(o, cfg, &corev1.Pod{}, func() (cache.ListerWatcher, error) {
			lw, client, err := podLists(cfg)
			if err != nil || list {
				return listOnly{lw}, err
			}
			return cache.ToListWatcherWithWatchListSemantics(lw, client), nil
		})
		if err != nil {
			return nil, fmt.Errorf("client-go: %w", err)
		}
		return newSharedInformer(cache.NewSharedIndexInformer(source, &corev1.Pod{}, o.Resync, cache.Indexers{}), o)
	}
}

// clientGoFails contains the stories that client-go 0.37 fails both with LISTs and with initial
// events, and the reasons.
var clientGoFails = map[string]string{
	"BlockedIndexFunction":     "index functions run between the WATCH and the store, under the store's lock",
	"PanickingHandler":         "a panic in a handler ends the process",
	"ResyncIsSpread":           "a resync queues every object at once",
	"RelistReportsOnlyChanges": "a relist is an update event for every object",
	"RelistIsNoResync":         "a relist is an update event for every object",
	"RepeatedEvents":           "an event is delivered even if its version is already stored",
	"StaleEvent":               "the store stores the version that arrives last",
	"RestoredFromBackup":       "a WATCH from a resourceVersion that the server has not reached is silent, and client-go repeats it",
	"HangingRequest":           "a request has no deadline",
	"StalledList":              "a list that is being received has no deadline",
	"StalledHead":              "a list that is being received has no deadline",
	"OutageIsAnError":          "there is no current error: the watch error handler does not receive every failure, and never the end of one",
	"ErrorEnds":                "there is no current error: the watch error handler never receives the end of one",
	"ForbiddenIsNoTimeout":     "waiting for the sync returns no reason",
	"BlockedHandlerIsBounded":  "the notifications that are pending for a handler are an unbounded list",
	"UndecodableIsAlone":       "one object that cannot be decoded fails the whole list or watch",
	"RelistStoresNothingTwice": "a list is complete in memory before the store receives it",
}

// clientGoWatchListFails has the stories that client-go fails only when it requests initial events,
// which is its default.
var clientGoWatchListFails = map[string]string{
	"StopInBackoff":        "the wait before the next request does not end with the context",
	"InitialEventsTooOld":  "client-go repeats the request immediately, without end, after 410 instead of initial events",
	"EndlesslyBroken":      "client-go repeats the request immediately, without end, after incomplete initial events",
	"InitialEventsIgnored": "it waits for the bookmark until the watch ends",
	"BookmarkNeverComes":   "it waits for the bookmark until the watch ends",
}

func TestClientGoWatchList(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{
		Name:  "client-go 0.37, WatchList (its default), protobuf",
		New:   clientGo(false, runtime.ContentTypeProtobuf),
		Fails: with(clientGoFails, clientGoWatchListFails),
	})
}

func TestClientGoList(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{
		Name:  "client-go 0.37, LIST, JSON",
		New:   clientGo(true, runtime.ContentTypeJSON),
		Fails: clientGoFails,
	})
}
