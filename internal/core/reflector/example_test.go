package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// A reflector keeps a store equal to a server. If an error prevents that, the caller can test for
// the error.
func Example() {
	denied := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Has("watch"):
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case denied:
			denied = false
			w.WriteHeader(http.StatusForbidden)
		default:
			io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
				{"metadata":{"name":"a","namespace":"default","resourceVersion":"3"}}]}`)
		}
	}))
	defer server.Close()

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	src, err := source.New(&rest.Config{Host: server.URL, Transport: transport}, source.Resource{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Encoding: wire.JSON}, source.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	held := store.New(store.Config{Encoding: wire.JSON})
	defer held.Close()
	r := reflector.New(src, held.Writer(store.Scope{}), reflector.Config{
		Mode: reflector.List,
		OnStatus: func(s reflector.Status) {
			if s.Phase == reflector.Waiting && errors.Is(s.Err, reflector.ErrForbidden) {
				fmt.Println("not allowed yet")
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	if err := held.WaitSynced(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(held.Len(), "object at", held.ResourceVersion())
	cancel()
	fmt.Println(<-done)
	// Output:
	// not allowed yet
	// 1 object at 7
	// context canceled
}
