package debug_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/debug"
)

// This example serves the page, and reads its data as JSON. Serve the page only on a local address:
// http.ListenAndServe("127.0.0.1:6060", mux).
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/debug/weir/", http.StripPrefix("/debug/weir", debug.Handler()))
	pages := httptest.NewServer(mux)
	defer pages.Close()
	stop := runInformer("the pods")
	defer stop()

	answer, err := pages.Client().Get(pages.URL + "/debug/weir/informers")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var shown struct {
		Informers []struct {
			Name    string
			Objects int
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&shown); err != nil {
		log.Fatal(err)
	}
	fmt.Println(shown.Informers)
	// Output: [{the pods 100}]
}

// runInformer runs an informer of 100 pods until stop is called.
func runInformer(name string) (stop func()) {
	server, err := apiserver.New(apiserver.Options{Pods: 100})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		log.Fatal(err)
	}
	pods, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{Name: name})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := pods.Run(ctx); err != nil {
			log.Print(err)
		}
	})
	if err := pods.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	return func() {
		cancel()
		wg.Wait()
		_ = server.Close()
	}
}
