// Package controllerruntime puts Weir's informers under the caches of controller-runtime: one line
// changes in the options of a manager, and clients, controllers and handlers stay.
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
//		Scheme:   scheme,
//		NewCache: controllerruntime.NewCache(),
//	})
//
// [NewCache] builds controller-runtime's own cache with Weir's informers, on a client whose
// transport passes them the bodies of LISTs and WATCHes as they arrive. [NewInformer] is for
// programs that set cache.Options.NewInformer themselves. They call clientgo.Wrap on the config (or
// on the config of the HTTP client) of that cache. Otherwise the informers receive objects that
// controller-runtime has decoded: that works, and uses little memory afterwards, but the first list
// uses much.
//
// Everything in cache.Options keeps its meaning: typed, unstructured and metadata objects,
// namespaces, selectors, transforms, indexes, resync periods, and a deep copy for each read unless
// it is disabled. docs/migrating.md lists the changes, docs/differences.md the intended differences
// between Weir's informers and client-go's.
package controllerruntime
