package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

// sharedInformer adapts a SharedIndexInformer, which is the drop-in's or client-go's own.
type sharedInformer struct {
	cache.SharedIndexInformer
	cluster *api.Cluster
	resync  time.Duration
	control bool // the informer is client-go's own
	resyncs bool // a relist delivers every object again
}

func newDropIn(c *api.Cluster, cl *api.Client, spec ClientSpec) (informer, error) {
	cfg := config(cl)
	clientgo.Wrap(cfg)
	lw, example, err := listerWatcher(c, cfg, spec)
	if err != nil {
		return nil, err
	}
	s := &sharedInformer{cluster: c, resync: spec.resync()}
	opts := clientgo.Options{LogBytes: spec.LogBytes, ListWatch: spec.listWatch()}
	switch spec.Options {
	case "pinned":
		opts.PinDecoded = true
	case "private":
		opts.PrivateCopies = true
	case "mutation":
		opts.DetectMutation = true
	case "uncaptured":
		opts.NoCapture = true
	case "resync":
		opts.ResyncOnRelist = true
	}
	s.resyncs = opts.ResyncOnRelist
	// Use the factory only under this condition: otherwise it would return client-go's own informer.
	if spec.Factory && !spec.Typed && private.Fields {
		s.SharedIndexInformer, err = fromFactory(c, config(cl), spec, s.resync, opts)
		if err == nil {
			err = s.AddIndexers(s.indexers())
		}
		return s, err
	}
	s.SharedIndexInformer = clientgo.NewSharedIndexInformerWithOptions(lw, example, s.resync, s.indexers(), opts)
	return s, nil
}

// fromFactory returns an informer of one of the drop-in's factories.
func fromFactory(c *api.Cluster, cfg *rest.Config, spec ClientSpec, resync time.Duration, opts clientgo.Options) (cache.SharedIndexInformer, error) {
	p := spec.Scope.pairs()[0]
	with := []clientgo.Option{
		clientgo.WithOptions(opts), clientgo.WithNamespace(p.namespace),
		clientgo.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = p.selector.String() }),
	}
	if c.Kind.Protobuf {
		f := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), resync, with...)
		return f.Core().V1().ConfigMaps().Informer(), nil
	}
	f := clientgo.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), resync, with...)
	return f.ForResource(c.Kind.GroupVersionResource).Informer(), nil
}

func newClientGo(c *api.Cluster, cl *api.Client, spec ClientSpec) (informer, error) {
	lw, example, err := listerWatcher(c, config(cl), spec)
	if err != nil {
		return nil, err
	}
	if spec.Mode != "watchlist" {
		lw = listOnly{lw}
	}
	s := &sharedInformer{cluster: c, resync: spec.resync(), control: true}
	s.SharedIndexInformer = cache.NewSharedIndexInformer(lw, example, s.resync, s.indexers())
	return s, nil
}

// listOnly makes client-go send LISTs instead of requests for initial events.
type listOnly struct{ cache.ListerWatcherWithContext }

func (l listOnly) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

func (l listOnly) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func config(cl *api.Client) *rest.Config {
	return &rest.Config{Host: "http://server", Transport: cl, QPS: -1}
}

// returned reports whether the drop-in uses the objects that the ListerWatcher returns, instead of
// capturing the response in the transport. It does so because of an option, or if it does not
// recognize the ListerWatcher's client. The drop-in then delivers every event that Watch returns,
// even a repeated one, as client-go does.
func (c ClientSpec) returned() bool {
	return c.Runner == DropIn && (c.Options == "uncaptured" || !c.Typed && !c.Factory)
}

// repeats reports whether a fault makes servers repeat events.
func (w *World) repeats() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool { return s.Op == Fault && s.Rule.Effect == api.Repeat })
}

// breaksOff reports whether a fault makes responses end before they are complete.
func (w *World) breaksOff() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool {
		return s.Op == Fault && (s.Rule.Effect == api.Cut || s.Rule.Effect == api.End || s.Rule.Effect == api.Stall)
	})
}

// resync returns the shortest resync period of the handlers, or 0 if no handler has one. The
// informer must have that period, because without it no handler receives resyncs.
func (c ClientSpec) resync() time.Duration {
	var d time.Duration
	for _, h := range c.Handlers {
		if h.Resync > 0 && (d == 0 || h.Resync < d) {
			d = h.Resync
		}
	}
	return d
}

// listerWatcher returns the ListerWatcher that generated code would create for the only pair of the
// scope, and an object of the type that it lists.
func listerWatcher(c *api.Cluster, cfg *rest.Config, spec ClientSpec) (listerWatcherBoth, runtime.Object, error) {
	p := spec.Scope.pairs()[0]
	tweak := func(o *metav1.ListOptions) { o.LabelSelector = p.selector.String() }
	of := func(client rest.Interface) listerWatcherBoth {
		return cache.NewFilteredListWatchFromClient(client, c.Kind.Resource, p.namespace, tweak)
	}
	switch {
	case c.Kind.Protobuf:
		cfg.ContentType = runtime.ContentTypeProtobuf
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, nil, err
		}
		return of(client.CoreV1().RESTClient()), &corev1.ConfigMap{}, nil
	case spec.Typed:
		client, err := widgetClient(cfg)
		if err != nil {
			return nil, nil, err
		}
		return of(client), &Widget{}, nil
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	resource := client.Resource(c.Kind.GroupVersionResource).Namespace(p.namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			return resource.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, nil
}

type listerWatcherBoth interface {
	cache.ListerWatcher
	cache.ListerWatcherWithContext
}

func (s *sharedInformer) indexers() cache.Indexers {
	return cache.Indexers{
		"namespace-of": cache.MetaNamespaceIndexFunc,
		"node":         func(obj any) ([]string, error) { return []string{nodeOf(obj)}, nil },
	}
}

func (s *sharedInformer) Run(ctx context.Context) { s.RunWithContext(ctx) }

func (s *sharedInformer) Err() (error, bool) {
	if s.control {
		return nil, false
	}
	return clientgo.Err(s.SharedIndexInformer), true
}

func (s *sharedInformer) Handle(h *handler) (registration, error) {
	f := cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			h.tell(context.Background(), event{typ: added, key: keyOf(obj), new: s.object(obj), initial: initial})
		},
		UpdateFunc: func(old, obj any) {
			e := event{typ: updated, key: keyOf(obj), old: s.object(old), new: s.object(obj)}
			if e.old == e.new && (s.control || s.resyncs || h.spec.Resync > 0) {
				e.typ = resynced
			}
			h.tell(context.Background(), e)
		},
		DeleteFunc: func(obj any) {
			e := event{typ: deleted}
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			} else {
				e.final = true
			}
			e.key, e.old = keyOf(obj), s.object(obj)
			h.tell(context.Background(), e)
		},
	}
	reg, err := s.AddEventHandlerWithResyncPeriod(f, h.spec.Resync)
	if err != nil {
		return nil, err
	}
	return sharedRegistration{reg, s}, nil
}

type sharedRegistration struct {
	cache.ResourceEventHandlerRegistration
	informer *sharedInformer
}

func (r sharedRegistration) Remove() {
	_ = r.informer.RemoveEventHandler(r.ResourceEventHandlerRegistration)
}

func keyOf(obj any) api.Key {
	m, ok := obj.(metav1.Object)
	if !ok {
		return api.Key{}
	}
	return api.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
}

func (s *sharedInformer) object(obj any) object { return objectOf(s.cluster, obj) }

// objectOf finds the representation of a decoded object by its annotations. If the object differs
// from that representation, the result says how.
func objectOf(c *api.Cluster, obj any) object {
	m, ok := obj.(metav1.Object)
	if !ok {
		return object{problem: fmt.Sprintf("a %T", obj)}
	}
	rep, ok := c.RepresentationByID(m.GetAnnotations()[api.IDAnnotation], m.GetAnnotations()[api.SchemaAnnotation])
	if !ok {
		return object{problem: fmt.Sprintf("not one that a server wrote: %v", obj)}
	}
	v := rep.Version
	switch {
	case keyOf(obj) != v.Key:
		return object{rep: rep, problem: "key " + keyOf(obj).String()}
	case string(m.GetUID()) != v.UID:
		return object{rep: rep, problem: "uid " + string(m.GetUID())}
	case nodeOf(obj) != v.Node:
		return object{rep: rep, problem: "node " + nodeOf(obj)}
	case !maps.Equal(m.GetLabels(), v.Labels):
		return object{rep: rep, problem: fmt.Sprintf("labels %v", m.GetLabels())}
	}
	if m.GetResourceVersion() != v.ResourceVersion() {
		rev, ok := v.Era.Parse(m.GetResourceVersion())
		if !ok {
			return object{rep: rep, problem: "resourceVersion " + m.GetResourceVersion()}
		}
		rep.Gone = rev
	}
	return object{rep: rep}
}

func (s *sharedInformer) Read(quiet bool, report func(string, ...any)) view {
	v := view{resourceVersion: s.LastSyncResourceVersion(), objects: map[api.Key]api.Representation{}}
	byNode, byNamespace := map[string][]string{}, map[string][]string{}
	for _, obj := range s.GetIndexer().List() {
		o := s.object(obj)
		if o.problem != "" || o.rep.Gone != 0 {
			report("an object of List: %v", o)
			continue
		}
		key := o.rep.Version.Key
		if _, ok := v.objects[key]; ok {
			report("List has %v twice", key)
		}
		v.objects[key] = o.rep
		byNode[o.rep.Version.Node] = append(byNode[o.rep.Version.Node], key.String())
		byNamespace[key.Namespace] = append(byNamespace[key.Namespace], key.String())
	}
	if !quiet {
		return v
	}
	for _, node := range []string{"node-1", "node-2"} {
		s.checkIndex("node", node, byNode[node], report)
	}
	for _, ns := range []string{"n1", "n2", "n3"} {
		s.checkIndex("namespace-of", ns, byNamespace[ns], report)
	}
	for key, rep := range v.objects {
		obj, ok, err := s.GetIndexer().GetByKey(key.String())
		if err != nil || !ok {
			report("GetByKey(%v): %v %v; List has it", key, ok, err)
		} else if o := s.object(obj); o.rep != rep {
			report("GetByKey(%v) gives %v; List %v", key, o, rep)
		}
	}
	return v
}

func (s *sharedInformer) checkIndex(name, value string, want []string, report func(string, ...any)) {
	keys, err := s.GetIndexer().IndexKeys(name, value)
	if err != nil {
		report("index %s: %v", name, err)
		return
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		report("index %s=%s has %v; by the objects of List it is %v", name, value, keys, want)
	}
}

// Rest is a no-op, because the interface does not show the informer's internal state.
func (s *sharedInformer) Rest(func(string, ...any)) {}
