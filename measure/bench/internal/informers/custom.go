package informers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// workload is a custom resource with the contents of a pod, in a Go type like those that programs
// generate.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   corev1.PodSpec   `json:"spec"`
	Status corev1.PodStatus `json:"status"`
}

// workloadList is a list of workloads.
type workloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []workload `json:"items"`
}

var (
	workloadsVersion  = schema.GroupVersion{Group: "bench.weir", Version: "v1"}
	workloadsResource = workloadsVersion.WithResource("workloads")
)

const workloadKind = "Workload"

// DeepCopyObject implements runtime.Object.
func (w *workload) DeepCopyObject() runtime.Object { return w.deepCopy() }

func (w *workload) deepCopy() *workload {
	out := &workload{TypeMeta: w.TypeMeta}
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	w.Spec.DeepCopyInto(&out.Spec)
	w.Status.DeepCopyInto(&out.Status)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *workloadList) DeepCopyObject() runtime.Object {
	out := &workloadList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].deepCopy())
	}
	return out
}

// resource returns the resource of the measured informer.
func (s *spec) resource() schema.GroupVersionResource {
	if s.Custom {
		return workloadsResource
	}
	return podsResource
}

// newSharedCustom returns an informer of workloads: client-go's or the drop-in's. It creates the
// informer like code that informer-gen generates, and the informer's client like code that
// client-gen generates, with a separate scheme.
func newSharedCustom(cfg *rest.Config, s *spec) *sharedInformer {
	cfg = rest.CopyConfig(cfg)
	if s.Side == sideWeir && !s.Unwrapped {
		clientgo.Wrap(cfg)
	}
	client := newWorkloads(cfg)
	generated := func(client workloadClient, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(client.listWatch(), &workload{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	if s.Side != sideWeir {
		return shared(s, generated(client, s.resyncPeriod()), lookAt[*workload])
	}
	adopted := clientgo.AdoptWithOptions(generated(client, s.resyncPeriod()), clientgo.Options{Server: s.server, NoCapture: s.Unwrapped})
	return shared(s, adopted, lookAt[*workload])
}

// workloadClient contains what an informer uses of a generated client.
type workloadClient struct {
	*gentype.ClientWithList[*workload, *workloadList]
}

func newWorkloads(cfg *rest.Config) workloadClient {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(workloadsVersion.WithKind(workloadKind), &workload{})
	scheme.AddKnownTypeWithName(workloadsVersion.WithKind(workloadKind+"List"), &workloadList{})
	metav1.AddToGroupVersion(scheme, workloadsVersion)
	cfg.APIPath, cfg.GroupVersion = "/apis", &workloadsVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client := figures.Must(rest.RESTClientFor(cfg))
	return workloadClient{gentype.NewClientWithList(
		workloadsResource.Resource, client, runtime.NewParameterCodec(scheme), metav1.NamespaceAll,
		func() *workload { return &workload{} }, func() *workloadList { return &workloadList{} },
	)}
}

func (c workloadClient) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return c.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, o)
		},
	}
}
