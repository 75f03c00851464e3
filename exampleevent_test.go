package weir_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir"
)

// A Deleted event carries the version of the deletion and reports whether the handler saw the final
// state. An object with another object's name, but another uid, is not an update of it.
func ExampleEvent() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, client := cluster(ctx)
	defer server.Close()

	inf, err := weir.NewInformer[*corev1.ConfigMap](server.Config(), weir.Options{})
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
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	run(ctx, inf, &wg)
	if err := client.ConfigMaps("colours").Delete(ctx, "blue", metav1.DeleteOptions{}); err != nil {
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
