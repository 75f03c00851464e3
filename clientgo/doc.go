// Package clientgo replaces client-go's informers: one line changes, and interfaces, listers and
// handlers stay.
//
//	-factory := informers.NewSharedInformerFactory(client, 10*time.Hour)
//	+factory, err := clientgo.NewSharedInformerFactory(cfg, 10*time.Hour)
//
// [NewSharedInformerFactory], [NewDynamicSharedInformerFactory] and
// [NewMetadataSharedInformerFactory] take a rest.Config, because they read the bodies of LISTs and
// WATCHes themselves. If there is a client already, call [Wrap] on its config before it is built.
// Then [NewSharedInformerFactoryWithOptions], [NewFilteredSharedInformerFactory] and their dynamic
// and metadata forms take the arguments of client-go's functions of those names.
// [NewSharedIndexInformer] takes any cache.ListerWatcher. If the ListerWatcher's client was built
// from a wrapped config, the informer reads the bodies; otherwise, with a fake clientset for
// example, it takes what List and Watch return.
//
// # What is held
//
// An object is held as packed bytes and is decoded when it is read. If it is soon read again it
// stays decoded until it has been idle for a while. [Options] change that. An object that List or
// Watch returned, or a transform, is encoded if that loses nothing, and held as a value otherwise:
// a value of another type than the example's, for one.
//
// # Errors
//
// An informer that is not current keeps trying. [Err] returns the reason why it is not, and
// [WaitForSync] the reason why it has not synced.
//
// docs/differences.md lists where the meaning differs from client-go's, why, and how to get
// client-go's back.
package clientgo
