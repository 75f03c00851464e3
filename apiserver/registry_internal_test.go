package apiserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/testing/check"
)

var gadgets = Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}, Kind: "Gadget"}

const gadgetsPath = "/apis/example.com/v1/gadgets"

// registerGadgets registers a resource and creates some of its objects. It returns a weak pointer
// to their storage.
func registerGadgets(t *testing.T, s *Server) weak.Pointer[storage] {
	t.Helper()
	check.NoError(t, s.Register(gadgets))
	for i := range 10 {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, gadgetsPath, strings.NewReader(fmt.Sprintf(
			`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g%d"}}`, i))))
		if w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	return weak.Make(s.registry.storages[gadgets.GroupVersionResource.GroupResource()])
}

// TestUnregisteredIsLetGo checks that the garbage collector frees the storage of an unregistered
// resource before the server closes.
func TestUnregisteredIsLetGo(t *testing.T) {
	s, err := New(Options{})
	check.NoError(t, err)
	defer s.Close()
	st := registerGadgets(t, s)
	if !s.Unregister(gadgets.GroupVersionResource) {
		t.Fatal("it is not registered")
	}
	runtime.GC()
	if st.Value() != nil {
		t.Error("the storage is in memory")
	}
}

// blocked is a client that does not read until the test closes free.
type blocked struct {
	*httptest.ResponseRecorder
	free chan struct{}
}

func (b blocked) Write(p []byte) (int, error) {
	<-b.free
	return b.ResponseRecorder.Write(p)
}

// TestWatcherKeepsUnregistered checks that a watcher that lags still receives its pending events
// and the deletions after its resource was unregistered.
func TestWatcherKeepsUnregistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{})
		check.NoError(t, err)
		defer s.Close()
		registerGadgets(t, s)
		client := blocked{httptest.NewRecorder(), make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.ServeHTTP(client, httptest.NewRequest(http.MethodGet, gadgetsPath+"?watch=1", nil))
		}()
		synctest.Wait()
		s.Unregister(gadgets.GroupVersionResource)
		synctest.Wait()
		close(client.free)
		<-ended
		check.Equal(t, strings.Count(client.Body.String(), `"DELETED"`), 10, "deletions")
	})
}
