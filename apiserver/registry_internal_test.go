package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

var gadgets = Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}, Kind: "Gadget"}

const gadgetsPath = "/apis/example.com/v1/gadgets"

// registerGadgets registers a resource, creates some objects, and returns their storage.
func registerGadgets(t *testing.T, s *Server) *storage {
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
	return s.registry.storages[gadgets.GroupVersionResource.GroupResource()]
}

// expectRetired checks how many storages of unregistered resources are kept, and whether st is
// closed, as those that are not kept must be.
func expectRetired(t *testing.T, s *Server, st *storage, want int) {
	t.Helper()
	_, err := st.put([]byte(`{"metadata":{"name":"g"}}`))
	if n := len(s.registry.retired); n != want || errors.Is(err, store.ErrClosed) != (want == 0) {
		t.Fatalf("%d are kept, want %d; a write: %v", n, want, err)
	}
}

// TestUnregisteredIsLetGo: the storage of an unregistered resource is freed before the server
// closes.
func TestUnregisteredIsLetGo(t *testing.T) {
	s, err := New(Options{})
	check.NoError(t, err)
	defer s.Close()
	for range 20 {
		st := registerGadgets(t, s)
		if !s.Unregister(gadgets.GroupVersionResource) {
			t.Fatal("it is not registered")
		}
		expectRetired(t, s, st, 0)
	}
}

// blocked is a client that does not read until the test allows it.
type blocked struct {
	*httptest.ResponseRecorder
	free chan struct{}
}

func (b blocked) Write(p []byte) (int, error) {
	<-b.free
	return b.ResponseRecorder.Write(p)
}

// TestWatcherKeepsUnregistered: a watcher still receives its pending events, and the deletions.
func TestWatcherKeepsUnregistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{})
		check.NoError(t, err)
		defer s.Close()
		st := registerGadgets(t, s)
		client := blocked{httptest.NewRecorder(), make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.ServeHTTP(client, httptest.NewRequest(http.MethodGet, gadgetsPath+"?watch=1", nil))
		}()
		synctest.Wait()
		s.Unregister(gadgets.GroupVersionResource)
		synctest.Wait()
		expectRetired(t, s, st, 1)
		close(client.free)
		<-ended
		check.Equal(t, strings.Count(client.Body.String(), `"DELETED"`), 10, "deletions")
		expectRetired(t, s, st, 0)
	})
}
