// Command controller copies a ConfigMap into every namespace, and keeps the copies equal. It is an
// example of a controller: informers of the typed API, and client-go's work queue and clients.
//
//	go run ./examples/controller default/settings
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/weirproject/weir"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err == nil {
		err = run(ctx, cfg, os.Args[1:])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// controller copies the ConfigMap source, whose name is name. The queue contains the names of
// namespaces, each at most once.
type controller struct {
	client       corev1client.CoreV1Interface
	namespaces   *weir.SharedInformer[*corev1.Namespace]
	configMaps   *weir.SharedInformer[*corev1.ConfigMap]
	queue        workqueue.TypedRateLimitingInterface[string]
	source, name string
}

// run copies the ConfigMap that args name until ctx ends.
func run(ctx context.Context, cfg *rest.Config, args []string) (err error) {
	if len(args) != 1 || strings.Count(args[0], "/") != 1 {
		return fmt.Errorf("want NAMESPACE/NAME of a ConfigMap, not %q", args)
	}
	c := &controller{client: corev1client.NewForConfigOrDie(cfg), source: args[0]}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	defer c.queue.ShutDown()
	_, c.name, _ = strings.Cut(c.source, "/")
	factory := weir.NewFactory(ctx, cfg)
	defer func() { err = errors.Join(err, factory.Shutdown()) }()
	if c.namespaces, err = weir.Acquire[*corev1.Namespace](factory, weir.Options{OnStatus: report}); err != nil {
		return err
	}
	only := []weir.Selector{{Field: "metadata.name=" + c.name}}
	if c.configMaps, err = weir.Acquire[*corev1.ConfigMap](factory, weir.Options{Selectors: only, OnStatus: report}); err != nil {
		return err
	}
	if _, err := c.namespaces.Handle(func(_ context.Context, e weir.Event[*corev1.Namespace]) { c.queue.Add(e.Key()) }, weir.HandlerOptions[*corev1.Namespace]{}); err != nil {
		return err
	}
	_, err = c.configMaps.Handle(func(_ context.Context, e weir.Event[*corev1.ConfigMap]) {
		if e.Key() != c.source {
			c.queue.Add(e.Item().Namespace())
			return
		}
		for namespace := range c.namespaces.Items() {
			c.queue.Add(namespace.Name())
		}
	}, weir.HandlerOptions[*corev1.ConfigMap]{})
	if err != nil || errors.Join(c.namespaces.WaitForSync(ctx), c.configMaps.WaitForSync(ctx)) != nil {
		return err // or ctx has ended
	}
	for namespace, shutdown := c.queue.Get(); !shutdown; namespace, shutdown = c.queue.Get() {
		if err := c.reconcile(ctx, namespace); err != nil {
			log.Printf("namespace %s: %v", namespace, err)
			c.queue.AddRateLimited(namespace)
		} else {
			c.queue.Forget(namespace)
		}
		c.queue.Done(namespace)
	}
	return nil
}

func report(s weir.Status) { log.Print(s) }

// reconcile makes the copy in a namespace equal to the source.
func (c *controller) reconcile(ctx context.Context, namespace string) error {
	key := namespace + "/" + c.name
	source, err := c.configMaps.Get(c.source)
	if _, exists := c.namespaces.Item(namespace); !exists || key == c.source || errors.Is(err, weir.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	copied, err := c.configMaps.Get(key)
	switch {
	case err == nil && maps.Equal(copied.Data, source.Data):
		return nil
	case err == nil:
		copied = copied.DeepCopy() // the informer's objects are shared
		copied.Data = source.Data
		copied, err = c.client.ConfigMaps(namespace).Update(ctx, copied, metav1.UpdateOptions{})
	case errors.Is(err, weir.ErrNotFound):
		copied = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Data: source.Data}
		copied, err = c.client.ConfigMaps(namespace).Create(ctx, copied, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	// The next reconcile must see the copy.
	return c.configMaps.WaitForResourceVersion(ctx, copied.ResourceVersion)
}
