package source_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// The list is read object by object, while it arrives.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
			{"metadata":{"name":"a","namespace":"default"}},{"metadata":{"name":"b","namespace":"default"}}]}`)
	}))
	defer server.Close()

	src, err := source.New(&rest.Config{Host: server.URL},
		source.Resource{GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}, source.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := src.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer list.Close()
	var meta wire.Meta
	for {
		object, err := list.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = wire.ReadMeta(list.Encoding(), object.Raw, &meta)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(wire.AppendKey(nil, &meta)))
	}
	fmt.Println("at", list.Meta().ResourceVersion)
	// Output:
	// default/a
	// default/b
	// at 7
}
