// Package controllerruntime puts level informers under the caches of controller-runtime: one changed line in the options
// of a manager, the same clients, controllers and handlers.
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
//		Scheme:   scheme,
//		NewCache: controllerruntime.NewCache(),
//	})
//
// [NewCache] builds controller-runtime's own cache with our informers, on a client whose transport hands us the bodies of
// LISTs and WATCHes as they arrive. [NewInformer] is its half for those who set cache.Options.NewInformer themselves:
// the config (or the HTTP client) of that cache must then have been through clientgo.Wrap, or the informers see
// objects only once controller-runtime has decoded them; they work all the same, and what they hold is as small, but the
// first list is not.
//
// Everything that cache.Options says means what it did: typed, unstructured and metadata objects, namespaces,
// selectors, transforms, indexes, resync periods, and a deep copy for each read unless it is disabled. docs/migrating.md has
// the rest, docs/differences.md where our informers mean to differ.
package controllerruntime
