package apiserver

import (
	"cmp"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// servedResource is one served version of a resource. It is immutable.
type servedResource struct {
	Resource
	bodyReader
	strategy strategy
	storage  *storage
	cache    *watchcache.Cache
}

// verbs are the verbs of every resource, in the order of discovery.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

var statusVerbs = []string{"get", "patch", "update"}

// complete returns r with defaults for the optional fields that are empty.
func (r Resource) complete() Resource {
	r.ListKind = cmp.Or(r.ListKind, r.Kind+"List")
	r.Singular = cmp.Or(r.Singular, strings.ToLower(r.Kind))
	return r
}

// newServedResource returns a served resource whose objects are in st.
func (s *Server) newServedResource(r Resource, goType reflect.Type, how strategy, st *storage) (*servedResource, error) {
	r = r.complete()
	res := &servedResource{Resource: r, strategy: how, storage: st}
	res.bodyReader = newBodyReader(r.GroupVersion().WithKind(r.Kind), goType)
	served := watchcache.Resource{
		GroupVersionResource: r.GroupVersionResource,
		Kind:                 r.Kind,
		ListKind:             r.ListKind,
		Namespaced:           r.Namespaced,
		Custom:               how.custom,
		Type:                 goType,
	}
	if !how.custom {
		served.Columns = columns.Of(served.GroupVersionKind())
	} else if len(r.columns) > 0 {
		served.Columns = columns.Custom(r.columns)
	}
	if goType != nil {
		served.Fields = watchcache.BuiltinFields(served.GroupVersionKind())
	} else if st.apiVersion != r.GroupVersion().String() {
		served.StoredAs = st.apiVersion
	}
	for _, path := range r.SelectableFields {
		path = strings.TrimPrefix(path, ".")
		served.Fields = append(served.Fields, watchcache.Field{Label: path, Paths: []string{path}})
	}
	var err error
	res.cache, err = watchcache.New(watchcache.Config{
		Resource:         served,
		Store:            st.store,
		Encoding:         st.encoding,
		Clock:            s.clock,
		History:          st.history,
		BookmarkInterval: s.opts.BookmarkInterval,
		MinWatch:         s.opts.MinWatch,
		WatchBuffer:      s.faults.watchBuffer,
		Bookmarks:        s.faults.bookmarks,
	})
	return res, err
}

// builtIn reports whether the resource is built in: neither Register nor a CustomResourceDefinition
// has added it.
func (res *servedResource) builtIn() bool { return !res.strategy.custom }

func (res *servedResource) groupResource() schema.GroupResource {
	return res.GroupVersionResource.GroupResource()
}
func (res *servedResource) groupKind() schema.GroupKind { return res.gvk.GroupKind() }
