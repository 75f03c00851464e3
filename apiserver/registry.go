package apiserver

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/weirproject/weir/internal/core/wire"
)

// registry contains the served resources. It is safe for concurrent use.
type registry struct {
	mu        sync.RWMutex
	resources map[schema.GroupVersionResource]*servedResource
	storages  map[schema.GroupResource]*storage // one for all versions of a resource
	closed    bool
}

func (g *registry) find(gvr schema.GroupVersionResource) (*servedResource, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	res, ok := g.resources[gvr]
	return res, ok
}

// isBuiltIn reports whether any version of a resource is built in.
func (g *registry) isBuiltIn(gr schema.GroupResource) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.isBuiltInLocked(gr)
}

func (g *registry) isBuiltInLocked(gr schema.GroupResource) bool {
	for gvr, res := range g.resources {
		if gvr.GroupResource() == gr && res.builtIn() {
			return true
		}
	}
	return false
}

// all returns all resources, sorted by group, version (the preferred version first) and name.
func (g *registry) all() []*servedResource {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := make([]*servedResource, 0, len(g.resources))
	for _, res := range g.resources {
		out = append(out, res)
	}
	slices.SortFunc(out, func(a, b *servedResource) int {
		return cmp.Or(
			cmp.Compare(a.Group, b.Group),
			-version.CompareKubeAwareVersionStrings(a.Version, b.Version),
			cmp.Compare(a.GroupVersionResource.Resource, b.GroupVersionResource.Resource))
	})
	return out
}

// Register adds one version of a custom resource. If the version is already registered, Register
// replaces it: its objects remain, and its watches end. It returns an error if the resource is
// built in, or if r lacks a version, a resource or a kind. After Close it returns ErrClosed.
func (s *Server) Register(r Resource) error {
	return s.register(r, nil, customStrategy)
}

// register is Register for any resource, including built-in resources.
func (s *Server) register(r Resource, goType reflect.Type, how strategy) error {
	gvr := r.GroupVersionResource
	if gvr.Version == "" || gvr.Resource == "" || r.Kind == "" {
		return fmt.Errorf("apiserver: a resource needs a version, a resource and a kind: %+v", r)
	}
	g := &s.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	if how.custom && g.isBuiltInLocked(gvr.GroupResource()) {
		return fmt.Errorf("apiserver: a version of %v is built in", gvr)
	}
	old, st := g.resources[gvr], g.storages[gvr.GroupResource()]
	if st == nil {
		enc := wire.JSON
		if goType != nil {
			enc = wire.Protobuf
		}
		st = newStorage(s.clock, enc, gvr.GroupVersion().String(), s.opts.LogBytes)
	}
	res, err := s.newServedResource(r, goType, how, st)
	if err != nil {
		return err
	}
	g.storages[gvr.GroupResource()], g.resources[gvr] = st, res
	if old != nil {
		old.cache.Close()
	}
	return nil
}

// Unregister removes one version of a custom resource. If it was the last version, Unregister also
// deletes the objects: watchers receive the deletions, and then their watches end. It returns false
// for a built-in or unknown version.
func (s *Server) Unregister(gvr schema.GroupVersionResource) bool {
	return s.unregister(gvr)
}

// unregister removes several versions, and then ends their watches, so that the watchers of all of
// these versions receive the deletions. It reports whether it removed any version. It does not
// close the storage, because requests in progress may still use it. The storage has no goroutine;
// the garbage collector frees it after the last request.
func (s *Server) unregister(gvrs ...schema.GroupVersionResource) bool {
	var removed []*servedResource
	for _, gvr := range gvrs {
		res, last := s.registry.remove(gvr)
		if res == nil {
			continue
		}
		removed = append(removed, res)
		if last {
			res.storage.deleteAll()
		}
	}
	for _, res := range removed {
		res.cache.Close()
	}
	return len(removed) > 0
}

// remove removes one version, and reports whether it was the last version of its resource. It
// returns nil for a built-in or unknown version.
func (g *registry) remove(gvr schema.GroupVersionResource) (res *servedResource, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	res = g.resources[gvr]
	if res == nil || res.builtIn() {
		return nil, false
	}
	delete(g.resources, gvr)
	for other := range g.resources {
		if other.GroupResource() == gvr.GroupResource() {
			return res, false
		}
	}
	delete(g.storages, gvr.GroupResource())
	return res, true
}

// close ends all watches and closes all stores.
func (g *registry) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, res := range g.resources {
		res.cache.Close()
	}
	for _, st := range g.storages {
		st.store.Close()
	}
}
