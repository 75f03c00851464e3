// Package controllerruntime makes the caches of controller-runtime use Weir's informers. A program
// changes one line in the options of its manager; its clients, controllers and handlers remain the
// same.
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
//		Scheme:   scheme,
//		NewCache: controllerruntime.NewCache(),
//	})
//
// [NewCache] builds controller-runtime's own cache with Weir's informers. These informers read the
// bodies of the responses to their LISTs and WATCHes themselves. [NewInformer] is for programs that
// set cache.Options.NewInformer. Such a program calls clientgo.Wrap on the config of the cache, or
// on the config from which it builds the cache's HTTP client. Without Wrap, controller-runtime's
// client decodes all objects of the first list before the informers pack them. The first list then
// needs much memory; afterwards the informers use little.
//
// All fields of cache.Options have the same meaning as with controller-runtime's own informers:
// typed, unstructured and metadata objects, namespaces, selectors, transforms, indexes, resync
// periods, and a deep copy for each read unless it is disabled. docs/howto/migrating.md describes
// the changes to a program. docs/reference/differences.md lists the intended differences between
// Weir's informers and client-go's.
package controllerruntime
