// Command cilium runs cilium's Kubernetes clients and some of its resources: pods, services and
// EndpointSlices with cilium's slim types, and CiliumEndpoints. It reports the objects in the
// resources' stores, and the events that a subscriber receives (see package report).
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/cilium/cilium/pkg/hive"
	"github.com/cilium/cilium/pkg/k8s"
	ciliumv2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	"github.com/cilium/cilium/pkg/k8s/client"
	"github.com/cilium/cilium/pkg/k8s/resource"
	corev1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	discoveryv1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/discovery/v1"
	"github.com/cilium/cilium/pkg/k8s/types"
	"github.com/cilium/cilium/pkg/k8s/utils"
	"github.com/cilium/hive/cell"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() { report.Main(run) }

func run() error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var all resources
	h := hive.New(client.Cell, cell.Config(k8s.DefaultConfig), cell.Provide(k8s.DefaultServiceWatchConfig, k8s.ServiceResource), cell.Invoke(all.build))
	flags := pflag.NewFlagSet("cilium", pflag.ContinueOnError)
	h.RegisterFlags(flags)
	if err := flags.Parse([]string{"--k8s-kubeconfig-path=" + os.Getenv("KUBECONFIG")}); err != nil {
		return err
	}
	ctx := context.Background()
	if err := h.Start(log, ctx); err != nil {
		return err
	}
	defer h.Stop(log, ctx)
	for _, r := range all {
		r.start(ctx)
	}
	return report.Serve(report.Knowledge{Count: all.count, All: all.all})
}

// resources are the resources of this program.
type resources []interface {
	start(ctx context.Context)
	count() int
	addTo(all map[string]any)
}

// build creates the resources. The resources of pods and of EndpointSlices have the same options as
// in cilium's operator, whose package cannot be built, and those of CiliumEndpoints have the
// transform of cilium's agent.
func (r *resources) build(lc cell.Lifecycle, clients client.Clientset, metrics workqueue.MetricsProvider, services resource.Resource[*corev1.Service]) {
	pods := utils.ListerWatcherFromTyped[*corev1.PodList](clients.Slim().CoreV1().Pods(""))
	slices := utils.ListerWatcherFromTyped[*discoveryv1.EndpointSliceList](clients.Slim().DiscoveryV1().EndpointSlices(""))
	endpoints := utils.ListerWatcherFromTyped[*ciliumv2.CiliumEndpointList](clients.CiliumV2().CiliumEndpoints(""))
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	*r = resources{
		&observed[*corev1.Pod]{of: resource.New[*corev1.Pod](lc, pods, metrics, resource.WithMetric("Pod"), resource.WithIndexers(cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": byNode,
		}))},
		&observed[*corev1.Service]{of: services},
		&observed[*discoveryv1.EndpointSlice]{of: resource.New[*discoveryv1.EndpointSlice](lc, slices, metrics,
			resource.WithMetric("EndpointSlice"), resource.WithIndexers(byNamespace))},
		&observed[*types.CiliumEndpoint]{of: resource.New[*types.CiliumEndpoint](lc, endpoints, metrics,
			resource.WithMetric("CiliumEndpoint"), resource.WithIndexers(byNamespace),
			resource.WithLazyTransform(func() runtime.Object { return &ciliumv2.CiliumEndpoint{} }, k8s.TransformToCiliumEndpoint))},
	}
}

func byNode(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }

// count returns the number of objects that subscribers have received. It returns 0 until every
// subscriber has received the event Sync.
func (r resources) count() (n int) {
	for _, one := range r {
		count := one.count()
		if count == 0 {
			return 0
		}
		n += count
	}
	return n
}

func (r resources) all() map[string]any {
	all := map[string]any{}
	for _, one := range r {
		one.addTo(all)
	}
	return all
}

// observed is a resource and the events that its subscriber has received.
type observed[T runtime.Object] struct {
	of    resource.Resource[T]
	mu    sync.Mutex
	syncs []int // the number of objects before each event Sync
	keys  map[resource.Key]history[T]
}

// history is what a subscriber has received about one key.
type history[T runtime.Object] struct {
	kinds string // a letter for each event: U for Upserts in succession, D for Delete
	last  T      // the object of the last event
}

// start subscribes to the resource's events.
func (o *observed[T]) start(ctx context.Context) {
	o.keys = map[resource.Key]history[T]{}
	events := o.of.Events(ctx)
	go func() { // returns when the resource stops
		for e := range events {
			o.receive(e)
			e.Done(nil)
		}
	}()
}

func (o *observed[T]) receive(e resource.Event[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.keys[e.Key]
	switch e.Kind {
	case resource.Sync:
		o.syncs = append(o.syncs, len(o.keys))
		return
	case resource.Upsert:
		if !strings.HasSuffix(h.kinds, "U") { // a relist repeats objects, and the queue merges updates
			h.kinds += "U"
		}
	case resource.Delete:
		h.kinds += "D"
	}
	h.last = e.Object
	o.keys[e.Key] = h
}

func (o *observed[T]) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.syncs) == 0 {
		return 0
	}
	return len(o.keys)
}

// addTo adds each key's events and last object, and whether the store has that object. It also adds
// the number of objects before the event Sync.
func (o *observed[T]) addTo(all map[string]any) {
	store, err := o.of.Store(context.Background()) // does not block after the event Sync
	if err != nil {
		all[fmt.Sprintf("store of %T", *new(T))] = err.Error()
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	kind := fmt.Sprintf("%T ", *new(T))
	all[kind+"Sync after"] = fmt.Sprint(o.syncs)
	for key, h := range o.keys {
		object, exists, err := store.GetByKey(key)
		last := h.last.DeepCopyObject()
		// client-go clears the kind in watch events, but not in lists. Weir clears it in neither.
		last.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		if all[kind+key.String()] = []any{h.kinds, last, any(object) == any(h.last), err}; !exists {
			// Before a pod's deletion, the API server sends a change, which the queue may merge with it.
			all[kind+key.String()] = []any{h.kinds, "deleted", last.(metav1.Object).GetUID()}
		}
	}
	all[kind+"store"] = len(store.List())
}
