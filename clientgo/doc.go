// Package clientgo replaces client-go's informers. A program changes one line; its interfaces,
// listers and handlers remain the same.
//
//	-factory := informers.NewSharedInformerFactory(client, 10*time.Hour)
//	+factory := clientgo.NewSharedInformerFactory(client, 10*time.Hour)
//
// [NewSharedInformerFactory], [NewDynamicSharedInformerFactory] and
// [NewMetadataSharedInformerFactory] have the arguments of client-go's functions. Their informers
// capture responses: they read the bodies of LISTs and WATCHes themselves, and the client receives
// empty responses. [AdoptFactory] does the same for a generated factory of any module.
//
// [NewSharedIndexInformer] accepts any cache.ListerWatcher, and [Adopt] any informer of client-go.
// Such an informer captures responses if its client was built from a config that was passed to
// [Wrap]. Otherwise, and for example with a fake clientset, an informer uses the results of List
// and Watch.
//
// # Stored objects
//
// The informer stores an object as packed bytes and decodes the object when a caller reads it. If
// callers read an object twice within [Options].DecodedIdle, the informer also keeps the decoded
// object. It drops the decoded object when no caller has read it for [Options].DecodedIdle. An
// object that List, Watch or a transform has returned is encoded first. If the encoding would lose
// something, for example because the object has another type than the informer's example, the
// informer stores the object itself.
//
// # Errors
//
// An informer that cannot list or watch retries. Until it succeeds, its objects may be outdated,
// and [Err] returns the error. [WaitForSync] returns the error that prevents the first list.
//
// docs/reference/differences.md lists where this package behaves differently from client-go, why,
// and how to restore client-go's behaviour.
package clientgo
