//go:build !oldest

package clientgo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
)

// cluster starts the embedded API server with two config maps. The examples use it in place of a
// cluster.
func cluster() (*apiserver.Server, *rest.Config) {
	server, err := apiserver.New(apiserver.Options{})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(server.Config())
	for _, name := range []string{"blue", "green"} {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	return server, server.Config()
}

// A program that moves from client-go changes only the package of the function that builds the
// factory.
func ExampleNewSharedInformerFactory() {
	server, cfg := cluster()
	defer server.Close()

	factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 10*time.Hour)
	maps := factory.Core().V1().ConfigMaps()
	added, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { fmt.Println("added", obj.(*corev1.ConfigMap).Name) },
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer factory.Shutdown()
	defer cancel()
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		log.Fatal(err)
	}
	cache.WaitFor(ctx, "", added.HasSyncedChecker())

	blue, err := maps.Lister().ConfigMaps("default").Get("blue")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(blue.Namespace, blue.Name)
	// Unordered output:
	// added blue
	// added green
	// default blue
}

// Call Wrap before you build the client. The informer then reads the bodies of the client's
// responses itself.
func ExampleNewSharedIndexInformer() {
	server, cfg := cluster()
	defer server.Close()

	clientgo.Wrap(cfg)
	client := kubernetes.NewForConfigOrDie(cfg)
	lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default", fields.Everything())
	inf := clientgo.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	defer func() { cancel(); <-done }()
	cache.WaitFor(ctx, "", inf.HasSyncedChecker())
	fmt.Println(inf.GetStore().ListKeys())
	// Output: [default/blue default/green]
}
