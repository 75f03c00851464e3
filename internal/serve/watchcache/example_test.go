package watchcache_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// This example answers a LIST from a store that other code fills.
func ExampleCache() {
	s := store.New(store.Config{Encoding: wire.JSON, KeepLog: true})
	defer s.Close()
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	cache, err := watchcache.New(watchcache.Config{
		Resource: watchcache.Resource{GroupVersionResource: widgets, Kind: "Widget", Namespaced: true},
		Store:    s,
		Encoding: wire.JSON,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	w := s.Writer(store.Scope{})
	w.BeginReplace(false)
	object := []byte(`{"kind":"Widget","metadata":{"name":"a","namespace":"default","resourceVersion":"7"}}`)
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, object, &m); err != nil {
		log.Fatal(err)
	}
	if err := w.Put(&m, object); err != nil {
		log.Fatal(err)
	}
	w.EndReplace("9")

	r := httptest.NewRequest(http.MethodGet, "/apis/example.com/v1/namespaces/default/widgets", nil)
	read, err := request.Parse(r)
	if err != nil {
		log.Fatal(err)
	}
	rec := httptest.NewRecorder()
	cache.Serve(rec, r, read)
	fmt.Println(rec.Code, rec.Header().Get("Content-Type"))
	fmt.Println(rec.Body)
	// Output:
	// 200 application/json
	// {"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"9"},"items":[{"kind":"Widget","metadata":{"name":"a","namespace":"default","resourceVersion":"7"}}]}
}
