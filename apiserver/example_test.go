package apiserver_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
)

// This example creates a server with simulated pods, and a client for it.
func Example() {
	server, err := apiserver.New(apiserver.Options{Pods: 100, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(pods.Items), "pods")

	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{})
	fmt.Println(err)
	// Output:
	// 100 pods
	// configmaps "settings" already exists
}

// This example uses faults to test how a program reacts to errors.
func ExampleFaults() {
	faults := &apiserver.Faults{}
	server, err := apiserver.New(apiserver.Options{Faults: faults})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	faults.Add(apiserver.Rule{
		Match: apiserver.Match("list", "secrets"),
		Err:   apierrors.NewForbidden(corev1.Resource("secrets"), "", nil),
	})
	_, err = client.CoreV1().Secrets("").List(context.Background(), metav1.ListOptions{})
	fmt.Println(apierrors.IsForbidden(err))
	// Output: true
}
