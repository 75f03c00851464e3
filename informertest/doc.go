// Package informertest is a conformance suite for informers of pods. Each of its stories runs an
// informer against a small scripted API server and checks one requirement.
//
//	func TestInformer(t *testing.T) {
//		informertest.Run(t, informertest.Rig{
//			Name: "mine",
//			New:  func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) { … },
//		})
//	}
//
// A [Rig] creates an [Informer] of the implementation under test from a rest.Config. [Stories]
// returns all stories. Each story has a name and a contract. If an issue has reported a violation
// of the contract, the story refers to this issue. Rig.Fails names the stories that an
// implementation is known to fail. The suite reports an error if the implementation passes such a
// story, so that Rig.Fails stays true. At the end it logs a table of the stories that failed and
// that Rig.Fails names.
//
// Each story runs in a testing/synctest bubble, and the server uses in-memory connections. Minutes
// of backoff, resyncs and deadlines therefore cost no real time, and a test can wait until no
// goroutine can continue. This requires that an informer under test creates its goroutines, timers
// and channels in New and Run. It must use the time package's clock, and must reach the server only
// through the rest.Config's transport. Its goroutines must end before Run returns.
//
// [Server] can be used without the suite, inside or outside a bubble. To clients that request only
// metadata, the server sends the result of [MetadataOf], from which an informer of metadata can
// restore the pods with [PodOf].
package informertest
