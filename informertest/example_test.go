package informertest_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/informertest"
)

// The example uses the server without an informer. The server refuses a client's first LIST, and
// answers the second LIST.
func ExampleServer() {
	server := informertest.NewServer()
	defer server.Close()
	server.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}})
	server.Answer(informertest.List, 1, informertest.Answer{Status: informertest.Forbidden()})

	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	_, err = pods.List(context.Background(), metav1.ListOptions{})
	fmt.Println(apierrors.IsForbidden(err))
	list, err := pods.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(list.Items[0].Name, list.ResourceVersion, server.Count(informertest.List))
	// Output:
	// true
	// web-0 1001 2
}
