package clientgo

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
)

// requestScope is the namespace and the selector of a request.
type requestScope struct {
	resource  schema.GroupVersionResource
	namespace string // "" is all
	selector  string // of labels and of fields; "" is everything
}

// scopeOf returns the scope of a request whose path is that of a resource's collection.
func scopeOf(req *http.Request, resource schema.GroupVersionResource) *requestScope {
	path, _ := request.CollectionOf(req.URL.Path)
	query := request.QueryOf(req.URL)
	return &requestScope{
		resource: resource, namespace: path.Namespace,
		selector: strings.TrimSpace(query.Get("labelSelector") + " " + query.Get("fieldSelector")),
	}
}

// resourceOf returns the resource of a request whose path is that of a collection.
func resourceOf(req *http.Request) (schema.GroupVersionResource, bool) {
	path, ok := request.CollectionOf(req.URL.Path)
	return path.GVR(), ok
}

// Scope returns the scope of the last captured request. A ListerWatcher does not provide it, so it
// is unknown before the first one, and while the ListerWatcher's own results are used.
func (l *listWatch) Scope() (namespace, selector string, ok bool) {
	s := l.scope.Load()
	if s == nil || l.noCapture.Load() {
		return "", "", false
	}
	return s.namespace, s.selector, true
}

// Type returns the apiVersion and the resource of the last captured request, and for metadata the
// kind that the example states.
func (l *listWatch) Type() (t wire.TypeMeta, resource string) {
	s := l.scope.Load()
	if s == nil {
		return wire.TypeMeta{}, ""
	}
	t.APIVersion = s.resource.GroupVersion().String()
	if l.matcher.partial && len(l.matcher.gvks) > 0 {
		t.Kind = l.matcher.gvks[0].Kind
	}
	return t, s.resource.Resource
}
