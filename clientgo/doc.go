// Package clientgo replaces client-go's informers: one line changes, and interfaces, listers and
// handlers stay.
//
//	-factory := informers.NewSharedInformerFactory(client, 10*time.Hour)
//	+factory, err := clientgo.NewSharedInformerFactory(cfg, 10*time.Hour)
//
// [NewSharedInformerFactory], [NewDynamicSharedInformerFactory] and
// [NewMetadataSharedInformerFactory] take a rest.Config, because they read the bodies of LISTs and
// WATCHes themselves. If a program has a client already, it calls [Wrap] on the client's config
// before it builds the client. Then [NewSharedInformerFactoryWithOptions],
// [NewFilteredSharedInformerFactory] and their dynamic and metadata forms take the arguments of
// client-go's functions of those names. [NewSharedIndexInformer] takes any cache.ListerWatcher. If
// the ListerWatcher's client was built from a wrapped config, the informer reads the bodies.
// Otherwise, for example with a fake clientset, it uses the results of List and Watch.
//
// # Cached objects
//
// The informer stores an object as packed bytes and decodes it when a caller reads it. An object
// that is read again soon stays decoded until it has been idle for a while. [Options] change that.
// The informer encodes an object that List, Watch or a transform returned if that loses nothing.
// Otherwise, for example if the value has another type than the example, it stores the value.
//
// # Errors
//
// An informer that is not current keeps trying. [Err] returns the reason why it is not, and
// [WaitForSync] the reason why it has not synced.
//
// docs/differences.md lists where the behaviour differs from client-go's, why, and how to restore
// client-go's.
package clientgo
