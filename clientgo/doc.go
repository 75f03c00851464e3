// Package clientgo puts level informers in the place of client-go's: one changed line, the same interfaces, listers and
// handlers.
//
//   - factory := informers.NewSharedInformerFactory(client, 10*time.Hour)
//   - factory, err := clientgo.NewSharedInformerFactory(cfg, 10*time.Hour)
//
// [NewSharedInformerFactory], [NewDynamicSharedInformerFactory] and [NewMetadataSharedInformerFactory] take a rest.Config, because
// they read the bodies of LISTs and WATCHes themselves. Where there is a client already, [Wrap] is called on its config, and
// [NewSharedInformerFactoryWithOptions], [NewFilteredSharedInformerFactory] and their kin with Dynamic and Metadata in their names take
// the arguments of client-go's functions of those names. [NewSharedIndexInformer] takes any cache.ListerWatcher: where its
// client was built from a config that [Wrap] was called on it reads the bodies too, and elsewhere what List and Watch
// return, from a fake clientset, say.
//
// # What is held
//
// An object is held as the bytes that came, packed, and decoded while somebody reads it: what is read again soon stays
// decoded, what is left alone cools. [Options] change that. What List and Watch returned (not captured), and what a
// transform returned, is encoded again where that loses nothing, and held as it is where it does: a value of another type
// than the example's, for one.
//
// # What is wrong
//
// An informer that is not current tries on. [Err] tells why it is not, and [WaitForSync] why it has not synced.
//
// docs/differences.md says where the meaning differs from client-go's, why, and what brings client-go's back.
package clientgo
