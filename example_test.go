package weir_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
)

// demo is an embedded API server with some config maps, and the informers that an example runs.
type demo struct {
	*apiserver.Server
	client  corev1client.CoreV1Interface
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startDemo starts the embedded API server, with which the examples run without a cluster.
func startDemo() *demo {
	d := &demo{}
	d.ctx, d.cancel = context.WithTimeout(context.Background(), time.Minute)
	var err error
	if d.Server, err = apiserver.New(apiserver.Options{Pods: 100, AnyNamespace: true}); err == nil {
		err = d.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	d.client = corev1client.NewForConfigOrDie(d.Config())
	for _, name := range []string{"blue", "green", "red"} {
		makeConfigMap(d.ctx, d.client, "colours", name)
	}
	makeConfigMap(d.ctx, d.client, "shapes", "circle")
	return d
}

// run runs an informer until the end of the example, and blocks until the informer has synced.
func (d *demo) run(inf interface {
	Run(context.Context) error
	WaitForSync(context.Context) error
}) {
	d.running.Go(func() {
		if err := inf.Run(d.ctx); err != nil {
			log.Print(err)
		}
	})
	if err := inf.WaitForSync(d.ctx); err != nil {
		log.Fatal(err)
	}
}

func (d *demo) stop() {
	d.cancel()
	d.running.Wait()
	_ = d.Close()
}

func makeConfigMap(ctx context.Context, client corev1client.CoreV1Interface, namespace, name string) *corev1.ConfigMap {
	made, err := client.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"initial": name[:1]}},
		Data:       map[string]string{"name": name},
	}, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return made
}

// This informer stores objects of a built-in type. The handler reads only the key of each object,
// so the informer decodes no object until a caller requests one.
func Example() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*corev1.ConfigMap](d.Config(), weir.Options{Namespaces: []string{"colours"}})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := maps.Handle(func(_ context.Context, e weir.Event[*corev1.ConfigMap]) {
		fmt.Println(e.Type, e.Key())
	}, weir.HandlerOptions[*corev1.ConfigMap]{})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	if err := handler.WaitForSync(d.ctx); err != nil {
		log.Fatal(err)
	}

	green, err := maps.Get("colours/green")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(green.Data["name"])
	_, err = maps.Get("colours/mauve")
	fmt.Println(errors.Is(err, weir.ErrNotFound))
	// Output:
	// ADDED colours/blue
	// ADDED colours/green
	// ADDED colours/red
	// green
	// true
}

// All reads one snapshot in key order. Objects that change meanwhile do not affect the loop.
func ExampleInformer_All() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*corev1.ConfigMap](d.Config(), weir.Options{
		Selectors: []weir.Selector{{Label: "initial in (b, c, g, r)"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	for m, err := range maps.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Namespace, m.Name)
	}
	// Output:
	// colours blue
	// colours green
	// colours red
	// shapes circle
}

// A snapshot does not change when the informer's objects change.
func ExampleInformer_Snapshot() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*corev1.ConfigMap](d.Config(), weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	before := maps.Snapshot()
	made := makeConfigMap(d.ctx, d.client, "shapes", "square")
	if err := maps.WaitForResourceVersion(d.ctx, made.ResourceVersion); err != nil {
		log.Fatal(err)
	}
	_, err = before.Get("shapes/square")
	fmt.Println(before.Len(), maps.Len(), errors.Is(err, weir.ErrNotFound))
	// Output: 4 5 true
}

// An index by field reads the stored bytes; an index by function receives the decoded object. A
// program can add both before or after the informer starts.
func ExampleInformer_By() {
	d := startDemo()
	defer d.stop()

	pods, err := weir.NewInformer[*corev1.Pod](d.Config(), weir.Options{Indexes: map[string]weir.Index{
		"node": weir.ByField("spec.nodeName"),
	}})
	if err != nil {
		log.Fatal(err)
	}
	d.run(pods)
	err = pods.AddIndex("ready", weir.ByFunc(func(p *corev1.Pod) ([]string, error) {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return []string{string(c.Status)}, nil
			}
		}
		return nil, nil
	}))
	if err != nil {
		log.Fatal(err)
	}

	var first *corev1.Pod
	ready := 0
	for p, err := range pods.By("ready", "True") {
		if err != nil {
			log.Fatal(err)
		}
		first = p
		ready++
	}
	found := false
	for p := range pods.By("node", first.Spec.NodeName) {
		found = found || p.Name == first.Name
	}
	fmt.Println(ready > 0, found)
	// Output: true true
}

// An informer of a custom resource's Go struct needs a Scheme that contains the type, or the
// resource's name.
func ExampleNewInformer_customResource() {
	d := startDemo()
	defer d.stop()
	serveWidgets(d.ctx, d.Server)

	widgets, err := weir.NewInformer[*Widget](d.Config(), weir.Options{Scheme: widgetScheme()})
	if err != nil {
		log.Fatal(err)
	}
	d.run(widgets)
	w, err := widgets.Get("shop/gear")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Kind, w.Name, w.Spec.Teeth)
	// Output: Widget gear 12
}

// An informer of unstructured objects receives JSON, also for built-in resources.
func ExampleNewInformer_unstructured() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*unstructured.Unstructured](d.Config(), weir.Options{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
	})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	red, err := maps.Get("colours/red")
	if err != nil {
		log.Fatal(err)
	}
	name, _, _ := unstructured.NestedString(red.Object, "data", "name")
	fmt.Println(red.GetAPIVersion(), red.GetKind(), name)
	// Output: v1 ConfigMap red
}

// A metadata-only informer works for any resource. The server sends only the metadata.
func ExampleNewInformer_metadataOnly() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*metav1.PartialObjectMetadata](d.Config(), weir.Options{
		Resource:   schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Namespaces: []string{"colours"},
	})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	for m, err := range maps.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.Name, m.Labels)
	}
	// Output:
	// blue map[initial:b]
	// green map[initial:g]
	// red map[initial:r]
}

// One informer lists several namespaces and selectors. If two selectors match an object, the
// informer stores the object once.
func ExampleNewInformer_merged() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*corev1.ConfigMap](d.Config(), weir.Options{
		Namespaces: []string{"colours", "shapes"},
		Selectors:  []weir.Selector{{Label: "initial=b"}, {Label: "initial=c"}, {Field: "metadata.name=blue"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	for i := range maps.Snapshot().Items() {
		fmt.Println(i.Key())
	}
	// Output:
	// colours/blue
	// shapes/circle
}

// To read your own write, wait for the resourceVersion that the write returned.
func ExampleInformer_WaitForResourceVersion() {
	d := startDemo()
	defer d.stop()

	maps, err := weir.NewInformer[*corev1.ConfigMap](d.Config(), weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	d.run(maps)
	made := makeConfigMap(d.ctx, d.client, "colours", "violet")
	if err := maps.WaitForResourceVersion(d.ctx, made.ResourceVersion); err != nil {
		log.Fatal(err)
	}
	_, err = maps.Get("colours/violet")
	fmt.Println(err)
	// Output: <nil>
}

// WaitForErr immediately returns the error that prevents the sync. The caller need not wait for a
// timeout.
func ExampleInformer_WaitForErr() {
	d := startDemo()
	defer d.stop()

	gadgets, err := weir.NewInformer[*unstructured.Unstructured](d.Config(), weir.Options{
		Resource: schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "gadgets"},
	})
	if err != nil {
		log.Fatal(err)
	}
	d.running.Go(func() { _ = gadgets.Run(d.ctx) })
	err = gadgets.WaitForErr(d.ctx)
	fmt.Println(errors.Is(err, weir.ErrUnknownResource))
	// Output: true
}

// A factory shares informers, and stops an informer after its last user has released it. Here the
// second user receives private copies, which it may change.
func ExampleFactory() {
	d := startDemo()
	defer d.stop()

	factory := weir.NewFactory(d.ctx, d.Config())
	one, err := weir.Acquire[*corev1.ConfigMap](factory, weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	two, err := weir.Acquire[*corev1.ConfigMap](factory, weir.Options{PrivateCopies: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := two.WaitForSync(d.ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(one.Len(), two.Len())
	one.Release()
	fmt.Println(two.Len())
	two.Release()
	<-two.Done()
	fmt.Println(factory.Shutdown())
	// Output:
	// 4 4
	// 4
	// <nil>
}

// A Deleted event contains the version of the deletion, and reports whether the handler received
// the final state of the object.
func ExampleEvent() {
	d := startDemo()
	defer d.stop()

	inf, err := weir.NewInformer[*corev1.ConfigMap](d.Config(), weir.Options{})
	if err != nil {
		log.Fatal(err)
	}
	deletions := make(chan weir.Event[*corev1.ConfigMap], 1)
	if _, err := inf.Handle(func(_ context.Context, e weir.Event[*corev1.ConfigMap]) {
		if e.Type == weir.Deleted {
			deletions <- e
		}
	}, weir.HandlerOptions[*corev1.ConfigMap]{}); err != nil {
		log.Fatal(err)
	}
	d.run(inf)
	if err := d.client.ConfigMaps("colours").Delete(d.ctx, "blue", metav1.DeleteOptions{}); err != nil {
		log.Fatal(err)
	}
	e := <-deletions
	fmt.Println(e.Key(), e.FinalStateUnknown)
	lastSeen := e.Item().ResourceVersion()
	fmt.Println(e.ResourceVersion() == lastSeen)
	// Output:
	// colours/blue false
	// false
}
