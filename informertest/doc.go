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
// returns all stories. Each has a name, a contract and, if an issue reported a violation, a
// reference to that issue. Rig.Fails names the stories that an implementation is known to fail. The
// suite reports an error if the implementation passes one of them, so that the list stays true, and
// logs the failed ones as a table at the end.
//
// Each story runs in a testing/synctest bubble, and the server uses in-memory connections. Minutes
// of backoff, resyncs and deadlines therefore take no real time, and a test can prove that nothing
// more will happen. In return, an informer under test must start its goroutines, timers and
// channels in New and Run. It must use the time package's clock, and must reach the server only by
// the rest.Config's transport. Its goroutines must end when Run returns.
//
// [Server] can be used separately, inside or outside a bubble. To clients that request only
// metadata, the server sends the result of [MetadataOf]. An informer of metadata can restore the
// pods with [PodOf].
package informertest
