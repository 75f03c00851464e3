package informers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// sharedInformer is a shared informer of pods from a client-go factory: client-go's informer, or
// the drop-in.
type sharedInformer struct {
	cache.SharedIndexInformer
	pods     listers.PodLister // from the typed factory; nil if there is none
	look     looker
	handlers []cache.ResourceEventHandlerRegistration
	cancel   context.CancelFunc
	ended    chan struct{}
}

// looker reads the objects that a handler receives, like a handler that needs them. It is called
// before the handler counts the key. The parameter before is the old object of an update, and nil
// otherwise. A looker returns false if the objects are wrong. A nil looker does nothing.
type looker func(before, object any) bool

// newShared returns an informer from a factory: client-go's or the drop-in's. A dynamic informer
// reads JSON. A typed informer reads protobuf, or JSON if it is of custom resources.
func newShared(cfg *rest.Config, s *spec) *sharedInformer {
	switch {
	case s.Unstructured:
		informer := newDynamicFactory(cfg, s).ForResource(s.resource()).Informer()
		return shared(s, informer, lookAt[*unstructured.Unstructured])
	case s.Custom:
		return newSharedCustom(cfg, s)
	}
	pods := newFactory(inProtobuf(cfg), s).Core().V1().Pods()
	c := shared(s, pods.Informer(), lookAt[*corev1.Pod])
	c.pods = pods.Lister()
	return c
}

// shared prepares an informer for the measurement and returns it. If the drop-in is measured, the
// informer's handlers call look. With --transform the informer has a transform that removes
// managedFields.
func shared(s *spec, informer cache.SharedIndexInformer, look looker) *sharedInformer {
	c := &sharedInformer{SharedIndexInformer: informer}
	if s.DropIn {
		c.look = look
	}
	if s.Transform {
		figures.Check(c.SetTransform(func(object any) (any, error) {
			// An object without metadata is a tombstone. The object in a tombstone is already transformed.
			if m, err := meta.Accessor(object); err == nil {
				m.SetManagedFields(nil)
			}
			return object, nil
		}))
	}
	return c
}

// inProtobuf returns a copy of cfg whose clients request protobuf.
func inProtobuf(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.AcceptContentTypes, cfg.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	return cfg
}

func newFactory(cfg *rest.Config, s *spec) informers.SharedInformerFactory {
	client := figures.Must(kubernetes.NewForConfig(cfg))
	if s.Side == sideWeir {
		return clientgo.NewSharedInformerFactory(client, s.resyncPeriod(), s.options())
	}
	return informers.NewSharedInformerFactory(client, s.resyncPeriod())
}

// options returns the option of a drop-in's factory: all informers share s.server.
func (s *spec) options() clientgo.Option {
	return clientgo.WithOptions(clientgo.Options{Server: s.server, NoCapture: s.Unwrapped})
}

func newDynamicFactory(cfg *rest.Config, s *spec) dynamicinformer.DynamicSharedInformerFactory {
	client := figures.Must(dynamic.NewForConfig(cfg))
	if s.Side == sideWeir {
		return clientgo.NewDynamicSharedInformerFactory(client, s.resyncPeriod(), s.options())
	}
	return dynamicinformer.NewDynamicSharedInformerFactory(client, s.resyncPeriod())
}

// lookAt is a looker that reads like a handler that reacts to changes: the resourceVersion and a
// label of both objects. It stores neither.
func lookAt[T metav1.Object](before, object any) bool {
	is, ok := object.(T)
	if !ok || is.GetName() == "" {
		return false
	}
	if before == nil || before == object {
		return true
	}
	was, ok := before.(T)
	return ok && (was.GetResourceVersion() != is.GetResourceVersion() || was.GetLabels()[appLabel] == is.GetLabels()[appLabel])
}

// index adds an index by a function, because client-go has no other indexes.
func (c *sharedInformer) index(name string, _ bool) error {
	return c.AddIndexers(cache.Indexers{name: func(object any) ([]string, error) {
		m, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		if app, ok := m.GetLabels()[appLabel]; ok {
			return []string{app}, nil
		}
		return nil, nil
	}})
}

func (c *sharedInformer) handle(resync time.Duration, h handler) error {
	tell := func(kind eventKind, before, object any) {
		if c.look != nil && !c.look(before, finalState(object)) {
			return
		}
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			h(kind, key)
		}
	}
	r, err := c.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { tell(added, nil, object) },
		UpdateFunc: func(before, object any) {
			if before == object { // the same pointer: from a resync, not from the server
				tell(resynced, before, object)
				return
			}
			tell(updated, before, object)
		},
		DeleteFunc: func(object any) { tell(deleted, nil, object) },
	}, resync)
	c.handlers = append(c.handlers, r)
	return err
}

// finalState returns the object in a tombstone. It returns any other object unchanged.
func finalState(object any) any {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return object
}

func (c *sharedInformer) run(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		c.RunWithContext(ctx)
	}()
}

func (c *sharedInformer) waitSync(ctx context.Context) error {
	for _, h := range c.handlers {
		select {
		case <-h.HasSyncedChecker().Done():
		case <-ctx.Done():
			return fmt.Errorf("the shared informer has not synced: %w", ctx.Err())
		}
	}
	return nil
}

func (c *sharedInformer) stop() error {
	c.cancel()
	<-c.ended
	return nil
}

func (c *sharedInformer) len() int { return len(c.GetStore().ListKeys()) }

func (c *sharedInformer) resourceVersion() string { return c.LastSyncResourceVersion() }

func (c *sharedInformer) get(key string) error {
	_, _, err := c.GetIndexer().GetByKey(key)
	return err
}

func (c *sharedInformer) list() (int, error) { return len(c.GetIndexer().List()), nil }

func (c *sharedInformer) by(index, value string) (int, error) {
	objects, err := c.GetIndexer().ByIndex(index, value)
	return len(objects), err
}

func (c *sharedInformer) pick(n int) (keys, values []string, err error) {
	all, apps := c.GetIndexer().ListKeys(), c.GetIndexer().ListIndexFuncValues(indexName)
	for _, at := range spread(n, len(all)) {
		keys = append(keys, all[at])
	}
	for _, at := range spread(n, len(apps)) {
		values = append(values, apps[at])
	}
	return keys, values, nil
}

// spread returns n evenly spaced positions in a list of the given size. If the list is shorter than
// n, it returns all positions.
func spread(n, size int) []int {
	n = min(n, size)
	at := make([]int, n)
	for i := range at {
		at[i] = i * size / n
	}
	return at
}
