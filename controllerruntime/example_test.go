package controllerruntime_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
)

// A program that uses Weir's informers adds only the line with NewCache.
func ExampleNewCache() {
	cfg, stop := server()
	defer stop()

	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics:  metricsserver.Options{BindAddress: "0"},
		NewCache: controllerruntime.NewCache(),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()

	mgr.GetCache().WaitForCacheSync(ctx)
	var settings corev1.ConfigMap
	if err := mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: "default", Name: "settings"}, &settings); err != nil {
		log.Fatal(err)
	}
	fmt.Println(settings.Data["color"])

	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output: red
}

// A program that sets cache.Options.NewInformer calls clientgo.Wrap on the config first.
func ExampleNewInformer() {
	cfg, stop := server()
	defer stop()

	clientgo.Wrap(cfg)
	c, err := cache.New(cfg, cache.Options{NewInformer: controllerruntime.NewInformer()})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()

	c.WaitForCacheSync(ctx)
	var all corev1.ConfigMapList
	if err := c.List(ctx, &all, client.InNamespace("default")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(all.Items), all.Items[0].Name)

	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output: 1 settings
}

// A controller that reads every ConfigMap all the time can keep the ConfigMaps decoded, as
// client-go does. These options do not affect informers of other kinds.
func ExampleWithObjectOptions() {
	cfg, stop := server()
	defer stop()

	newCache := controllerruntime.NewCache(
		controllerruntime.WithObjectOptions(&corev1.ConfigMap{}, clientgo.Options{PinDecoded: true}),
	)
	c, err := newCache(cfg, cache.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()

	c.WaitForCacheSync(ctx)
	var settings corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "settings"}, &settings); err != nil {
		log.Fatal(err)
	}
	fmt.Println(settings.Name, settings.Data)

	cancel()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output: settings map[color:red]
}

// server starts an API server with one object. It returns the server's config and a function that
// stops the server.
func server() (*rest.Config, func()) {
	s, err := apiserver.New(apiserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Start(); err != nil {
		log.Fatal(err)
	}
	c, err := client.New(s.Config(), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Create(context.Background(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"},
		Data:       map[string]string{"color": "red"},
	}); err != nil {
		log.Fatal(err)
	}
	return s.Config(), func() { _ = s.Close() }
}
